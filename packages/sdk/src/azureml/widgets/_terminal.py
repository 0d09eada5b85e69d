from runyard_sdk.follow import follow as follow_run


def follow(details):
    """Print status changes and log lines until the run ends; Ctrl-C only stops the showing."""
    run = details._run
    print("Run {} ({})".format(run.id, run.get_portal_url()))
    try:
        for event in follow_run(run._client, run.id):
            if event[0] == "status":
                print("-- {} {}".format(event[1], event[2] or "").rstrip())
            elif event[0] == "log":
                print(event[2], end="", flush=True)
    except KeyboardInterrupt:
        print("\nNo longer shown; the run goes on.")
        return
    summary(details)


def summary(details):
    """Print what is known of the run now."""
    data = details.get_widget_data()
    print("Run {}: {}".format(data["run_id"], data["status"]))
    print("Web View: {}".format(data["portal_url"]))
    if data["message"]:
        print(data["message"])
    if data["sweep"] is not None:
        _print_sweep(data["sweep"])
        return
    for metric in data["run_metrics"]:
        print("  {}: {}".format(metric["name"], shown(metric["values"])))


def _print_sweep(view):
    from azureml.widgets import _sweeps

    print(_on_one_line("Best so far: {}".format(_sweeps.best_in_words(view))))
    print("Children: {}".format(_sweeps.counts_in_words(view)))
    headings, rows = _sweeps.table(view)
    lines = [[_on_one_line(cell) for cell in cells] for cells in [headings] + rows]
    widths = [max(map(len, column)) for column in zip(*lines)]
    for cells in lines if rows else ():
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip())
    if _sweeps.others_in_words(view):
        print("  " + _sweeps.others_in_words(view))


def _on_one_line(text):
    """Control characters in a user's values must not move the cursor or end the line."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def shown(values):
    """A metric in a few characters: its last value, and how many there are."""
    last = "{:.6g}".format(values[-1]) if isinstance(values[-1], float) else str(values[-1])
    return last if len(values) == 1 else "{} ({} values)".format(last, len(values))
