"""What the package shows: its names, stubs, docstrings, version."""

import doctest
import inspect
import re
import unittest
from pathlib import Path

import bantam


class Surface(unittest.TestCase):
    def test_stub_has_every_name_and_parameter(self):
        for module, stub in ((bantam, "__init__"), (bantam.llama_cpp, "llama_cpp")):
            with self.subTest(stub):
                self.compare(module, (Path(bantam.__file__).parent / f"{stub}.pyi").read_text())

    def compare(self, module, stub):
        for name in module.__all__:
            value = getattr(module, name)
            if name.endswith("Options") or (name == "Llama" and module is bantam):
                self.assertIn(f"import {name} as {name}", stub)  # typed where it is
                continue
            if inspect.isclass(value) and value.__name__ == name:  # not a second name
                self.assertRegex(stub, rf"(?m)^class {name}\b|^{name} = ", name)
                members = [m for m in vars(value) if not m.startswith("_")]
                body = re.split(rf"(?m)^class {name}\b[^\n]*\n", stub)[-1].split("\nclass ")[0]
                for member in members:
                    self.assertRegex(body, rf"\b{member}\b", f"{name}.{member}")
            elif inspect.isfunction(value):
                signature = re.search(rf"(?ms)^def {name}\((.*?)\) ->", stub)
                self.assertIsNotNone(signature, name)
                options = re.search(r"\*\*options: Unpack\[(\w+)\]", signature.group(1))
                known = set(bantam._options.table_of(getattr(bantam, options.group(1)))) if options else set()
                for parameter in set(inspect.signature(value).parameters) - known:
                    self.assertRegex(signature.group(1), rf"\b{parameter}\b", f"{name}({parameter})")
            else:
                self.assertRegex(stub, rf"(?m)^(def )?{name}\b", name)

    def test_stub_is_python(self):
        for path in Path(bantam.__file__).parent.glob("*.pyi"):
            compile(path.read_text(), path.name, "exec")

    def test_docstring_examples(self):
        for module in (bantam, bantam._model, bantam._session, bantam._compress):
            self.assertEqual(doctest.testmod(module).failed, 0, module.__name__)

    def test_version(self):
        self.assertRegex(bantam.__version__, r"^\d+\.\d+\.\d+$")
        self.assertIn(bantam.cpu_info()["isa"], bantam.cpu_info()["isas"])
        bantam.set_isa(bantam.cpu_info()["isa"])


if __name__ == "__main__":
    unittest.main()
