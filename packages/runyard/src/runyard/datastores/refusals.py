from runyard.datastores.paths import shown
from runyard.errors import AlreadyExists, InvalidArgument, SourceChanged


def already_exists(path: str) -> AlreadyExists:
    return AlreadyExists(f"{shown(path)} is there already.", hint="Pass overwrite=True, or choose another path.")


def source_changed(path: str) -> SourceChanged:
    return SourceChanged(
        f"{shown(path)} is not the file it was: it has changed since it was listed.",
        hint="Read it as it is now, by listing it again or making a new version of the dataset.",
    )


def past_end(path: str) -> InvalidArgument:
    return InvalidArgument(f"The part of {shown(path)} that is asked for is not all there: the file ends before.")
