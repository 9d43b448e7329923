"""What the contracts in pyproject.toml cannot say about imports, and that these contracts hold."""

import ast
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "numba_gemm"
#: The rooms that may use what Numba has for itself and for its extensions.
NUMBA_ROOMS = ("compiler", "device")
#: What all others may import of Numba: what its documentation has for writers of kernels.
PUBLIC = {f"numba.{name}" for name in ("cuda", "float32", "int32", "int64", "types", "uint32", "uint64", "void")}


def imported(path):
    """The dotted names that a file imports, at any depth, with their lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: imports are absolute here"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def sources(*, without=()):
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).parts[0] not in without]


def test_the_contracts_hold(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True) == EXIT_STATUS_SUCCESS, "run lint-imports"


def test_the_contracts_have_no_exceptions():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    assert not [contract for contract in contracts["contracts"] if "ignore_imports" in contract]


def test_only_the_compiler_and_the_device_know_numba_from_inside():
    found = defaultdict(list)
    for path in sources(without=NUMBA_ROOMS):
        for name, line in imported(path):
            if name.split(".")[0] in ("numba", "numba_cuda", "llvmlite") and name not in PUBLIC:
                found[str(path.relative_to(ROOT))].append(f"line {line}: {name}")
    assert not found


@pytest.mark.parametrize("foreign", ["notes", "benchmarks", "tests", "checker"])
def test_the_package_imports_nothing_of_the_checkout(foreign):
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sources()
        for name, line in imported(path)
        if name.split(".")[0] == foreign
    ]
    assert not found
