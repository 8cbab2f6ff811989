"""run_model.py LIBRARY FILE DEVICE: a model that `heddle compile` made, through ctypes and nothing else."""
import ctypes as c
import sys


class Port(c.Structure):
    _fields_ = [("name", c.c_char_p), ("type", c.c_int), ("rank", c.c_int32), ("shape", c.POINTER(c.c_int64)),
                ("bytes", c.c_uint64)]


def ports(ask, model):
    port, index = Port(), 0
    while ask(model, index, c.byref(port)) == 0:
        yield index, port
        port, index = Port(), index + 1


lib = c.CDLL(sys.argv[1])
lib.heddle_error.restype = c.c_char_p
lib.heddle_error.argtypes = lib.heddle_close.argtypes = lib.heddle_run.argtypes = [c.c_void_p]
for call in lib.heddle_input_port, lib.heddle_output_port:
    call.argtypes = [c.c_void_p, c.c_uint32, c.POINTER(Port)]
for call in lib.heddle_input, lib.heddle_output:
    call.argtypes = [c.c_void_p, c.c_uint32, c.c_char_p, c.c_uint64]
net = c.c_void_p()
if lib.heddle_open(sys.argv[2].encode(), sys.argv[3].encode(), 0, c.byref(net)):
    sys.exit(lib.heddle_error(None).decode())
for i, port in ports(lib.heddle_input_port, net):
    lib.heddle_input(net, i, bytes(port.bytes), port.bytes)
if lib.heddle_run(net):
    sys.exit(lib.heddle_error(net).decode())
for i, port in ports(lib.heddle_output_port, net):
    values = c.create_string_buffer(port.bytes)
    if lib.heddle_output(net, i, values, port.bytes):
        sys.exit(lib.heddle_error(net).decode())
    print(port.name.decode(), list(port.shape[:port.rank]), "f32" if port.type == 0 else port.type,
          list((c.c_float * min(4, port.bytes // 4)).from_buffer(values)))
lib.heddle_close(net)
