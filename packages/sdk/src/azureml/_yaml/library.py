"""PyYAML's events, handed to a Builder. Its constructors are not used: they make dates and share aliased values."""
from azureml._yaml.values import YamlError


def read(yaml, text, builder):
    """Hand the events of the text to the builder. `yaml` is the module."""
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            _hand_over(yaml, event, builder)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise YamlError("Line %d cannot be read: %s." % (
            mark.line + 1 if mark else 1, getattr(error, "problem", None) or error))


def _hand_over(yaml, event, builder):
    line = event.start_mark.line + 1
    if getattr(event, "tag", None) is not None:
        raise YamlError("Line %d uses a tag, which is not read here: %r. Write the value out in quotes." % (
            line, event.tag))
    if isinstance(event, yaml.ScalarEvent):
        builder.scalar(event.value, line, is_plain=event.implicit[0], anchor=event.anchor)
    elif isinstance(event, yaml.AliasEvent):
        builder.alias(event.anchor, line)
    elif isinstance(event, yaml.MappingStartEvent):
        builder.begin({}, line, event.anchor)
    elif isinstance(event, yaml.SequenceStartEvent):
        builder.begin([], line, event.anchor)
    elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
        builder.end()
    elif isinstance(event, yaml.DocumentStartEvent):
        builder.document(line)
