"""A copy of the tree with the drawn mutants in it, built once (mutant schemata): each place computes the original or,
where HEDDLE_MUTANT is its number, the mutated expression."""
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys

import shader_sites

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDERS = ["core", "distributed", "autograd", "nn", "data", "io", "train", "shaders"]
DECLARATION = "bool hk_mutant(int) noexcept;  // chosen by HEDDLE_MUTANT\n#line 1\n"


def tracked(root):
    command = ["git", "-C", root, "ls-files", "-co", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    return [n for n in names if n and os.path.isfile(f"{root}/{n}")]


def write(path, data):
    """Files that stay as they are keep their time, so that the build leaves them alone."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path) and open(path, "rb").read() == data:
        return
    with open(path, "wb") as file:
        file.write(data)


# ---- drawing

def mutable(root):
    """{folder: [(path, lines)]}"""
    result = {folder: [] for folder in FOLDERS}
    for name in tracked(root):
        folder = name.split("/")[0]
        if folder in result and name.endswith((".hk", ".hki") if folder == "shaders" else ".cpp"):
            result[folder].append((name, open(f"{root}/{name}").read().count("\n")))
    return result


def sites_of(root, path, arguments):
    if path.startswith("shaders/"):
        return shader_sites.sites_of(root, path)
    import cpp_sites
    return cpp_sites.sites_of(root, path, arguments.get(f"{root}/{path}", []))


def draw(root, arguments, count, seed, per_file=4):
    """`count` mutants that do not overlap: folders by the square root of their lines, files by lines, then each
    operator alike. A file that is drawn gives several, since each drawn file is compiled anew."""
    chance = random.Random(seed)
    files = mutable(root)
    weight = {folder: math.sqrt(sum(lines for _, lines in list_)) for folder, list_ in files.items()}
    taken = []
    for folder in FOLDERS:
        wanted = len(taken) + round(count * weight[folder] / sum(weight.values()))
        while len(taken) < wanted and files[folder]:
            drawn = chance.choices(files[folder], [lines for _, lines in files[folder]])[0]
            files[folder].remove(drawn)
            sites = sites_of(root, drawn[0], arguments)
            print(f"{drawn[0]}: {len(sites)} places", file=sys.stderr, flush=True)
            taken += some_of(sites, min(per_file, wanted - len(taken)), chance)
    chance.shuffle(taken)
    return [as_row(root, n + 1, site) for n, site in enumerate(taken)]


def some_of(sites, count, chance):
    taken = []
    while sites and len(taken) < count:
        operator = chance.choice(sorted({s.operator for s in sites}))
        site = chance.choice([s for s in sites if s.operator == operator])
        taken.append(site)
        sites = [s for s in sites if s.end <= site.begin or site.end <= s.begin]
    return taken


def as_row(root, number, site):
    source = open(f"{root}/{site.path}", "rb").read()[site.begin:site.end].decode()
    return dict(site._asdict(), number=number, source=source)


# ---- the copy

def mutated_text(root, path, mutants):
    text = open(f"{root}/{path}", "rb").read()
    for m in sorted(mutants, key=lambda m: -m["begin"]):
        text = text[:m["begin"]] + m["text"].replace("{n}", str(m["number"])).encode() + text[m["end"]:]
    return DECLARATION.encode() + text


def edited(text, old, new):
    assert old in text, old
    return text.replace(old, new)


def with_hook(text):
    """Who asks for a kernel file reaches its mutants."""
    place = "const KernelFile& KernelFile::builtin(std::string_view name) {\n"
    text = edited(text, place, place + '  hk_mutants_of_file(std::string(name) + ".hk");\n')
    return "#include <string>\nvoid hk_mutants_of_file(const std::string&) noexcept;\n#line 1\n" + text


def unoptimised(files):
    """The mutated files are what is compiled anew: without optimisation that takes half as long."""
    names = " ".join(sorted(name for name in files if name.endswith(".cpp")))
    return f"\nset_source_files_properties({names} PROPERTIES COMPILE_OPTIONS -O0)\n" if names else ""


def write_copy(root, tree, mutants):
    by_file = {}
    for m in mutants:
        by_file.setdefault(m["path"], []).append(m)
    special = {
        "CMakeLists.txt": lambda t: t + unoptimised(by_file),
        "cmake/embed.cmake": lambda t: edited(t, "FUNCTION=builtin_files", "FUNCTION=original_builtin_files"),
        "core/dialect/kernel_file.cpp": with_hook,
        "tests/environment/tuning.cpp": lambda t: t + open(f"{HERE}/listener.inc").read(),
    }
    for name in tracked(root):
        data = open(f"{root}/{name}", "rb").read()
        if name in by_file and not name.startswith("shaders/"):
            data = mutated_text(root, name, by_file[name])
        if name in special:
            data = special[name](data.decode()).encode()
        write(f"{tree}/{name}", data)
    write(f"{tree}/core/mutants.cpp", open(f"{HERE}/runtime.cpp", "rb").read())
    write(f"{tree}/core/mutants.inc", shader_table(mutants).encode())


def shader_table(mutants):
    rows = [m for m in mutants if m["path"].startswith("shaders/")]
    return "".join(f'{{{m["number"]}, "{os.path.basename(m["path"])}", {m["begin"]}, {m["end"]}, '
                   f'{json.dumps(m["text"])}}},\n' for m in rows)


# ---- its build

def configure(tree, flags):
    os.makedirs(f"{tree}/build", exist_ok=True)
    options = ["-DHEDDLE_PCH=OFF", "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_CXX_FLAGS_RELEASE={flags}"]
    if shutil.which("ccache"):
        options.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    if shutil.which("ld.lld"):
        options += ["-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld", "-DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=lld"]
    subprocess.run(["cmake", "--preset", "release", *options], cwd=tree, check=True, stdout=subprocess.DEVNULL)


def build(tree, targets, jobs):
    command = ["cmake", "--build", f"{tree}/build/release", "-j", str(jobs), "--target", *targets, "--", "-k", "0"]
    with open(f"{tree}/build/build.log", "w") as log:
        subprocess.run(command, stdout=log, stderr=subprocess.STDOUT)
    return open(f"{tree}/build/build.log").read()


def without_broken(mutants, log, tree):
    """Those that the compiler took: a place that cannot be computed at run time is found out here."""
    error = re.compile(r"^(?:%s/|(?:\.\./)*)(\w[^:\s]*):(\d+):\d+: error" % re.escape(tree), re.M)
    wrong = {(m.group(1), int(m.group(2))) for m in error.finditer(log)}

    def is_broken(m):
        last = m["line"] + m["source"].count("\n")
        return any(path == m["path"] and m["line"] <= line <= last for path, line in wrong)

    kept = [m for m in mutants if not is_broken(m)]
    if len(kept) < len(mutants):
        return kept
    return [m for m in mutants if m["path"] not in {path for path, _ in wrong}]
