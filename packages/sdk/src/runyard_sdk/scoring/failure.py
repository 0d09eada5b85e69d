"""Why a worker cannot start, in words for whoever deployed it."""
import os
import sys
import traceback

from runyard_sdk.scoring import missing

LONGEST_MESSAGE = 4000
LONGEST_TRACEBACK = 32000
_OUR_PACKAGE = "runyard_sdk.scoring"


class InitFailed(Exception):
    """The model or script cannot be served. `hint` is the next step."""

    def __init__(self, problem, hint=""):
        super(InitFailed, self).__init__(problem)
        self.problem, self.hint = problem, hint


def failure_facts(error, start):
    """The payload of an `F` frame."""
    if isinstance(error, InitFailed):
        problem, hint, cause = error.problem, error.hint, error.__cause__ or error.__context__
    else:
        problem, hint, cause = "Loading failed: %s" % one_line(error), "", error
    return {
        "problem": shortened(problem, LONGEST_MESSAGE),
        "hint": shortened(hint or (hint_for(cause, start) if cause else ""), LONGEST_MESSAGE),
        "traceback": shortened(users_traceback(cause), LONGEST_TRACEBACK) if cause else "",
        "exception": type(cause or error).__name__,
    }


def log_failure(facts):
    """The same for those who read the log."""
    sys.stderr.write("\n".join(filter(None, (facts["traceback"].rstrip(), facts["problem"], facts["hint"]))) + "\n")


def one_line(error):
    """`ValueError: the message`; the name alone where there is no message."""
    try:
        text = " ".join(_words(error).splitlines())
    except Exception:  # a class of the user's whose __str__ fails
        text = ""
    return "%s: %s" % (type(error).__name__, text[:LONGEST_MESSAGE]) if text else type(error).__name__


def _words(error):
    """The sentence alone of azureml's own exceptions, whose text is a page."""
    is_azureml = type(error).__module__.startswith("azureml.") and hasattr(error, "message")
    return str(error.message if is_azureml else error)


def shortened(text, most):
    """Its beginning and its end, where it has more than about so many characters."""
    if len(text) <= most:
        return text
    return "%s\n... %d characters are left out here ...\n%s" % (
        text[:most // 2], len(text) - most // 2 * 2, text[-(most // 2):])


def users_traceback(error):
    """The traceback without our own frames above the user's."""
    frames = error.__traceback__
    while frames is not None and _is_ours(frames.tb_frame):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames))


def log_exception(error):
    sys.stderr.write(users_traceback(error))


def hint_for(error, start):
    """The next step for the errors that are met most; else ""."""
    if isinstance(error, ImportError):
        return missing.hint_for_import(error, start.app_root)
    text = str(error)
    if isinstance(error, AttributeError) and "Can't get attribute" in text:
        return ("The pickle names a class or function of the script that saved it. Define it in a module of its own, "
                "put that into the source_directory, and save and register the model again.")
    if isinstance(error, (FileNotFoundError, IsADirectoryError, NotADirectoryError)):
        return _what_is_there(start)
    if isinstance(error, MemoryError):
        return "The model does not fit into memory; give memory_gb in the deployment configuration a larger value."
    return ""


def _what_is_there(start):
    held = []
    for model in start.models:
        for where, _, names in os.walk(model.folder):
            held += [os.path.relpath(os.path.join(where, name), start.models_root) for name in sorted(names)]
    listed = ", ".join(held[:20]) + (" and %d more" % (len(held) - 20) if len(held) > 20 else "")
    return "AZUREML_MODEL_DIR is %s; azureml-models holds: %s." % (
        os.environ.get("AZUREML_MODEL_DIR", "not set"), listed or "nothing")


def _is_ours(frame):
    name = frame.f_globals.get("__name__", "")
    return name.startswith((_OUR_PACKAGE, "importlib.")) or (
        name == "__main__" and frame.f_code.co_filename.startswith(os.path.dirname(os.path.abspath(__file__))))
