"""YAML of conda files and run configurations: PyYAML reads it where it can be imported, else our own reader.

The SDK's wheel brings PyYAML to clients. A run has only what its environment holds, so `reading` is there without it.
Both readers feed one `Builder`, which alone decides what values a text has, and which texts are refused.
"""
from azureml._yaml.values import MAX_CHARACTERS, Builder, YamlError, checked_text
from azureml._yaml.writing import dumps

__all__ = ["MAX_CHARACTERS", "YamlError", "dumps", "loads"]


def loads(text):
    """The value of a YAML text; None for an empty one."""
    text, builder = checked_text(text), Builder()
    library = _library()
    if library is None:
        from azureml._yaml.reading import read
        read(text, builder)
    else:
        from azureml._yaml.library import read
        read(library, text, builder)
    return builder.value


def _library():
    """PyYAML, or None where it is absent or another module has its name."""
    try:
        import yaml
    except Exception:  # a user's own yaml.py may raise anything; it must not stop a run that reads a conda file
        return None
    return yaml if hasattr(yaml, "SafeLoader") and hasattr(yaml, "ScalarEvent") else None
