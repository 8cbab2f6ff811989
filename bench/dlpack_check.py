"""dlpack_check.py LIBRARY FILE DEVICE...: NumPy's and PyTorch's arrays as inputs and outputs of a compiled model.

LIBRARY: libheddle_runtime.so. FILE: what `heddle compile` made; its first bucket is used, and its inputs and
outputs are f32. For each device and each of the two packages, whichever are installed: arrays go in by DLPack's
capsules, are changed in place and run again; outputs come out by capsules; outputs are written straight into
arrays; the addresses are compared, and values with heddle_input() and heddle_output() bit by bit. The line of a
device says what was shared, what was copied, and why. Exit code 1: a difference, or memory that was to be shared
and was not."""
import ctypes as c
import gc
import sys
import weakref

py = c.pythonapi
py.PyCapsule_New.restype = c.py_object
py.PyCapsule_New.argtypes = [c.c_void_p, c.c_char_p, c.c_void_p]
py.PyCapsule_GetPointer.restype = c.c_void_p
py.PyCapsule_GetPointer.argtypes = [c.py_object, c.c_char_p]
py.PyCapsule_SetName.argtypes = [c.py_object, c.c_char_p]
NO_COPY, WOULD_COPY = 1, 11


class Port(c.Structure):
    _fields_ = [("name", c.c_char_p), ("type", c.c_int), ("rank", c.c_int32), ("shape", c.POINTER(c.c_int64)),
                ("bytes", c.c_uint64)]


class Versioned(c.Structure):
    """The head of DLManagedTensorVersioned, up to the data's address."""
    _fields_ = [("major", c.c_uint32), ("minor", c.c_uint32), ("context", c.c_void_p), ("deleter", c.c_void_p),
                ("flags", c.c_uint64), ("data", c.c_void_p)]


def load(path):
    lib = c.CDLL(path)
    lib.heddle_error.restype = lib.heddle_copied.restype = c.c_char_p
    for call in lib.heddle_error, lib.heddle_copied, lib.heddle_close, lib.heddle_run:
        call.argtypes = [c.c_void_p]
    for call in lib.heddle_input_port, lib.heddle_output_port:
        call.argtypes = [c.c_void_p, c.c_uint32, c.POINTER(Port)]
    for call in lib.heddle_input, lib.heddle_output:
        call.argtypes = [c.c_void_p, c.c_uint32, c.c_void_p, c.c_uint64]
    lib.heddle_input_dlpack.argtypes = [c.c_void_p, c.c_uint32, c.c_void_p, c.c_uint]
    lib.heddle_input_dlpack_unversioned.argtypes = lib.heddle_input_dlpack.argtypes
    lib.heddle_output_into.argtypes = [c.c_void_p, c.c_uint32, c.c_void_p]
    lib.heddle_output_dlpack.argtypes = [c.c_void_p, c.c_uint32, c.c_uint, c.c_void_p]
    return lib


class Handed:
    """What heddle_output_dlpack() gave, as a producer in Python's protocol."""

    def __init__(self, pointer):
        self.pointer, self.device = pointer, (1, 0)
        self.data = Versioned.from_address(pointer).data

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        return py.PyCapsule_New(self.pointer, b"dltensor_versioned", None)


class Model:
    def __init__(self, lib, path, device):
        self.lib, self.net = lib, c.c_void_p()
        if lib.heddle_open(path.encode(), device.encode(), 0, c.byref(self.net)):
            sys.exit(lib.heddle_error(None).decode())

    def __del__(self):
        self.lib.heddle_close(self.net)

    def ask(self, status, allowed=(0,)):
        if status not in allowed:
            raise RuntimeError(self.lib.heddle_error(self.net).decode())
        return self.lib.heddle_copied(self.net).decode() if status == 0 else self.lib.heddle_error(self.net).decode()

    def port(self, ask, index):
        port = Port()
        return port if ask(self.net, index, c.byref(port)) == 0 else None

    def ports(self, ask):
        found = []
        while (port := self.port(ask, len(found))) is not None:
            found.append((list(port.shape[:port.rank]), port.type, port.bytes))
        return found

    def give(self, index, array, flags=0, versioned=True):
        """Why it was copied; "" where it was not."""
        name = b"dltensor_versioned" if versioned else b"dltensor"
        capsule = array.__dlpack__(max_version=(1, 0)) if versioned else array.__dlpack__()
        take = self.lib.heddle_input_dlpack if versioned else self.lib.heddle_input_dlpack_unversioned
        why = self.ask(take(self.net, index, py.PyCapsule_GetPointer(capsule, name), flags))
        py.PyCapsule_SetName(capsule, USED[name])  # the model's now
        return why

    def into(self, index, array):
        capsule = array.__dlpack__(max_version=(1, 0))
        status = self.lib.heddle_output_into(self.net, index, py.PyCapsule_GetPointer(capsule, b"dltensor_versioned"))
        why = self.ask(status, (0, WOULD_COPY))
        if status == 0:
            py.PyCapsule_SetName(capsule, USED[b"dltensor_versioned"])
        return why

    def hand_out(self, index, flags=0):
        made = c.c_void_p()
        why = self.ask(self.lib.heddle_output_dlpack(self.net, index, flags, c.byref(made)))
        return Handed(made.value), why


USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}  # kept: capsules point there


class NumPy:
    def __init__(self):
        import numpy
        self.np, self.name = numpy, "NumPy " + numpy.__version__
        self.rng = numpy.random.default_rng(1)

    def drawn(self, shape):
        return self.aligned(self.rng.standard_normal(shape).astype("f4"))

    def aligned(self, values):
        """At a multiple of 64 bytes, which outputs are written to."""
        memory = self.np.empty(values.nbytes + 64, "u1")
        skip = -memory.ctypes.data % 64
        array = memory[skip:skip + values.nbytes].view("f4").reshape(values.shape)
        array[...] = values
        return array

    def zeros(self, shape):
        return self.aligned(self.np.zeros(shape, "f4"))

    def taken(self, handed):
        return self.np.from_dlpack(handed)

    def address(self, array):
        return array.ctypes.data

    def values(self, array):
        return self.np.ascontiguousarray(array).tobytes()

    def draw_into(self, array):
        array[...] = self.rng.standard_normal(array.shape)


class PyTorch:
    def __init__(self):
        import torch
        self.torch, self.name = torch, "PyTorch " + torch.__version__
        torch.manual_seed(1)

    def drawn(self, shape):
        return self.torch.randn(shape)

    def zeros(self, shape):
        return self.torch.zeros(shape)

    def taken(self, handed):
        return self.torch.from_dlpack(handed)

    def address(self, array):
        return array.data_ptr()

    def values(self, array):
        return array.contiguous().numpy().tobytes()

    def draw_into(self, array):
        array.normal_()


def plain(model, package, inputs, outputs):
    """The outputs by heddle_input() and heddle_output()."""
    for i, array in enumerate(inputs):
        values = package.values(array)
        model.ask(model.lib.heddle_input(model.net, i, values, len(values)))
    model.ask(model.lib.heddle_run(model.net))
    found = []
    for i, (_, _, size) in enumerate(outputs):
        values = c.create_string_buffer(size)
        model.ask(model.lib.heddle_output(model.net, i, values, size))
        found.append(values.raw)
    return found


def check(lib, path, device, package):
    model, by_copies = Model(lib, path, device), Model(lib, path, device)
    ins, outs = model.ports(lib.heddle_input_port), model.ports(lib.heddle_output_port)
    if any(kind != 0 for _, kind, _ in ins + outs):
        sys.exit("the model's inputs and outputs must be f32")
    arrays, said, faults = [package.drawn(shape) for shape, _, _ in ins], [], []

    def expect(holds, what):
        if not holds:
            faults.append(what)

    for i, array in enumerate(arrays):
        why = model.give(i, array, versioned=i % 2 == 0)
        said.append(f"input {i} " + (f"copied ({why})" if why else "shared"))
    for _ in range(3):
        for i, array in enumerate(arrays):
            package.draw_into(array)
            if "shared" not in said[i]:
                model.give(i, array)
        wanted = plain(by_copies, package, arrays, outs)
        model.ask(lib.heddle_run(model.net))
        for i in range(len(outs)):
            handed, why = model.hand_out(i)
            taken = package.taken(handed)
            expect(package.address(taken) == handed.data, f"output {i} was copied by the package")
            expect(package.values(taken) == wanted[i], f"output {i} has other values")
            text = f"output {i} " + (f"copied ({why})" if why else "shared")
            if text not in said:
                said.append(text)
            del taken, handed
    for i, (shape, _, _) in enumerate(outs):
        target = package.zeros(shape)
        why = model.into(i, target)
        said.append(f"into {i} " + (f"refused ({why})" if why else "shared"))
        model.ask(lib.heddle_run(model.net))
        done = c.c_int(0)
        while not done.value:
            model.ask(lib.heddle_done(model.net, c.byref(done)))
        if not why:
            expect(package.values(target) == wanted[i], f"what was written into {i} has other values")
    kept = [weakref.ref(array) for array in arrays]
    del arrays, array, target
    gc.collect()
    shared = [i for i in range(len(ins)) if said[i].endswith("shared")]
    if isinstance(package, NumPy):  # PyTorch keeps the memory, not Python's object
        expect(all(kept[i]() is not None for i in shared), "an input went before its model")
    last, why = model.hand_out(0)
    outlives = package.taken(last)
    before = package.values(outlives)
    del model
    gc.collect()
    expect(all(array() is None for array in kept), "an input outlives its model")
    expect(package.values(outlives) == before, "an output did not outlive its model")
    print(f"{device}, {package.name}:", "; ".join(said + (["FAULTS"] + faults if faults else ["all equal"])))
    return not faults and all("shared" in text for text in said)


def main():
    lib, good = load(sys.argv[1]), True
    for make in NumPy, PyTorch:
        try:
            package = make()
        except ImportError as absent:
            print(f"skipped: {absent}")
            continue
        for device in sys.argv[3:]:
            good &= check(lib, sys.argv[2], device, package)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
