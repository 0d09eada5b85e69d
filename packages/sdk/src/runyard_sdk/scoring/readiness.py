"""What a worker tells of itself once its scorer has loaded."""
import json
import os

LARGEST_PART = 64000
_PARTS = {
    "input": "The schema of the input",
    "output": "The schema of the output",
    "sample_input": "The sample input",
    "sample_output": "The sample output",
}


def ready_facts(scorer, notes, seconds):
    """The payload of an `H` frame. `seconds`: what loading took."""
    import_seconds = getattr(scorer, "import_seconds", 0.0)
    schema, left_out = tellable(getattr(scorer, "schema", None) or {})
    notes = list(notes) + left_out
    return {
        "pid": os.getpid(),
        "wants_heads": bool(getattr(scorer, "wants_heads", False)),
        "batches": bool(getattr(scorer, "batches", False)),
        "methods": list(getattr(scorer, "methods", ("POST",))),
        "schema": schema,
        "init_seconds": round(seconds - import_seconds, 6),
        "import_seconds": round(import_seconds, 6),
        "notes": notes + [note for note in getattr(scorer, "notes", ()) if note not in notes],
    }


def tellable(schema):
    """(the parts that are small enough for a document that people read, a sentence for each of the others)."""
    told, sentences = {}, []
    for name in _PARTS:
        if schema.get(name) is None:
            continue
        size = len(json.dumps(schema[name]))
        if size <= LARGEST_PART:
            told[name] = schema[name]
        else:
            sentences.append("%s takes %d bytes as JSON and is left out of swagger.json; at most %d are shown."
                             % (_PARTS[name], size, LARGEST_PART))
    return told, sentences
