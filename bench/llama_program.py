"""Small programs of bench/llama/ against a build of llama.cpp that the user has.

The sources have to be those of the build: what a header says of structures is not checked.
"""
import pathlib
import subprocess
import sysconfig


def linking(build):
    """Of a build's folder, with libllama.so in its bin, or of the library that PyPI's xllamacpp carries, a module of
    Python that has all of llama.cpp in it. None where neither is there."""
    build = pathlib.Path(build)
    if build.suffix == ".so" and build.exists():
        python = [f"-L{sysconfig.get_config_var('LIBDIR')}", f"-lpython{sysconfig.get_config_var('LDVERSION')}"]
        return [str(build)] + python + ["-Wl,--allow-shlib-undefined", f"-Wl,-rpath,{build.parent}"]
    if (build / "bin" / "libllama.so").exists():
        return [f"-L{build}/bin", "-lllama", "-lggml", "-lggml-base", f"-Wl,-rpath,{build}/bin"]
    return None


def program(name, sources, build, out, fail):
    """The path of bench/llama/NAME.cpp compiled against headers in `sources`; fail(line) where it cannot be."""
    links = linking(build)
    if links is None:
        fail(f"{build} is no llama.cpp: neither bin/libllama.so in it (build the target llama) nor xllamacpp's .so")
    here = pathlib.Path(__file__).resolve().parent / "llama" / f"{name}.cpp"
    command = ["c++", "-std=c++17", "-O2", str(here), f"-I{sources}/include", f"-I{sources}/ggml/include"]
    if subprocess.run(command + links + ["-o", out], check=False).returncode != 0:
        fail(f"{here.name} was not compiled against {sources}")
    return out
