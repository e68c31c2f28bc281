"""Makes links of the cross-references in docstrings, which are written as Sphinx has them.

``:func:`read_timings``` becomes a link to the function, where it is on a page, and its bare name elsewhere. A
name that is not there is a warning, and so the end of a strict build.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import (
    AliasResolutionError,
    Attribute,
    Docstring,
    ExprCall,
    Extension,
    Function,
    GriffeLoader,
    NameResolutionError,
    Object,
    Parameter,
    ParameterKind,
    get_logger,
)

log = get_logger(__name__)

PACKAGES = {"timing_logger", "allreduce_instrumentation"}
ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`(~?)([\w.]+)`")
LITERAL_BLOCK = re.compile(r"^(.*):: *$", re.MULTILINE)
SEVERAL_ARGUMENTS = re.compile(r"^( +)(\w+(?:, \*{0,2}\w+)+): (.*(?:\n\1 +.*)*)", re.MULTILINE)


class SphinxReferences(Extension):
    """Rewrites the docstring of each object once its package is loaded."""

    def on_object(self, *, obj: Object, loader: GriffeLoader, **kwargs: Any) -> None:
        """Rewrite what is of Sphinx into Markdown."""
        if isinstance(borrowed := obj.members.get("__doc__"), Attribute):
            path = obj.resolve(str(borrowed.value).removesuffix(".__doc__"))
            obj.docstring = loader.modules_collection[path].docstring
        for each in obj.decorators if isinstance(obj, Function) else ():
            if isinstance(each.value, ExprCall) and each.value.function.canonical_name == "shows_options":
                _show_options(obj, loader.modules_collection[each.value.arguments[0].canonical_path])
        if obj.docstring is not None:
            obj.docstring.value = _as_markdown(obj.docstring, obj, loader)


def _show_options(method: Function, of: Object) -> None:
    """Put each option into the signature, as the decorator does where the program runs."""
    (options,) = [each for each in method.parameters if each.kind is ParameterKind.var_keyword]
    del method.parameters[options.name]
    stated = {each.name for each in method.parameters}
    for field in of.attributes.values():
        if field.annotation is not None and "property" not in field.labels and field.name not in stated:
            method.parameters.add(
                Parameter(
                    field.name,
                    annotation=field.annotation,
                    kind=ParameterKind.keyword_only,
                    default=str(field.value),
                )
            )


def _as_markdown(docstring: Docstring, obj: Object, loader: GriffeLoader) -> str:
    def link(role: re.Match[str]) -> str:
        short, name = role.groups()
        path = _path_of(name, obj)
        if not _is_there(path, loader):
            log.warning("%s: the docstring of %s names %s, which is not there", obj.filepath, obj.path, name)
        shown = name.rpartition(".")[2] if short else name.lstrip(".")
        return f'<autoref identifier="{path}" optional>`{shown}`</autoref>'

    text = ROLE.sub(link, docstring.value)
    text = LITERAL_BLOCK.sub(lambda found: f"{found[1]}:" if found[1].strip() else "", text)
    return SEVERAL_ARGUMENTS.sub(_one_by_one, text)


def _one_by_one(arguments: re.Match[str]) -> str:
    """``a, b: what they are`` once for each of them, which is how they get their types."""
    indent, names, text = arguments.groups()
    return "\n".join(f"{indent}{name}: {text}" for name in names.split(", "))


def _path_of(name: str, obj: Object) -> str:
    """Return the full name of what an object's docstring calls ``name``."""
    if name.startswith("."):
        package = obj.module if obj.module.is_init_module else obj.module.parent
        return f"{package.path if package else ''}{name}"
    first, dot, rest = name.partition(".")
    if first in PACKAGES:
        return name
    try:
        return obj.resolve(first) + dot + rest
    except NameResolutionError:
        return f"{obj.module.path}.{name}"  # where it would be


def _is_there(path: str, loader: GriffeLoader) -> bool:
    """Tell whether a name of these packages is the name of something; of others it is taken to be."""
    package = path.partition(".")[0]
    if package not in PACKAGES:
        return True
    if package not in loader.modules_collection:
        loader.load(package, try_relative_path=False)
    try:
        loader.modules_collection[path]
    except (KeyError, AliasResolutionError):
        return False
    return True
