def as_numbers(version):
    """A version as a tuple that compares: '0.10.1' -> (0, 10, 1). What follows a non-digit is left out."""
    numbers = []
    for part in str(version).split("."):
        digits = "".join(char for char in part if char.isdigit())
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
