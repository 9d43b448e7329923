"""Print the coefficients of gelu in `numba_gemm/device/activation.py`. Needs mpmath.

exp(a²/2) · a · Φ(−a) for a = 0 … 15 as y (C0 + … + C8 y⁸), y = a/(a + 2.875), such that the largest relative error is
as small as can be (Remez's exchange). Of a dozen shifts from 2.5 to 3.5 this one gave the least error at that degree.
"""

import mpmath as mp

SHIFT, FAR, TERMS = mp.mpf("2.875"), 15, 9
mp.mp.dps = 50


def exact(y: mp.mpf) -> mp.mpf:
    """What C0 + … + C8 y⁸ stands for, finite at 0."""
    a = SHIFT * y / (1 - y)
    return mp.erfc(a / mp.sqrt(2)) / 2 * mp.exp(a * a / 2) * (a + SHIFT)


def extrema(errors: list[mp.mpf]) -> list[int]:
    """The place of the largest error in each stretch of one sign."""
    found, start = [], 0
    for end in range(1, len(errors) + 1):
        if end == len(errors) or mp.sign(errors[end]) != mp.sign(errors[start]):
            found.append(max(range(start, end), key=lambda i: abs(errors[i])))
            start = end
    return found


def fit() -> tuple[list[mp.mpf], mp.mpf]:
    """Coefficients from C0 on, and the largest relative error."""
    least, most = mp.mpf(0), FAR / (FAR + SHIFT)

    def chebyshev(count: int) -> list[mp.mpf]:
        return [(least + most - (most - least) * mp.cos(mp.pi * i / (count - 1))) / 2 for i in range(count)]

    grid = chebyshev(2000)
    values = [exact(y) for y in grid]
    nodes = chebyshev(TERMS + 1)
    for _ in range(30):
        equations = mp.matrix(TERMS + 1, TERMS + 1)
        for i, y in enumerate(nodes):
            for power in range(TERMS):
                equations[i, power] = y**power / exact(y)
            equations[i, TERMS] = (-1) ** i  # as much too large as too small, in turn
        *coefficients, level = mp.lu_solve(equations, mp.ones(TERMS + 1, 1))
        fitted = [mp.polyval(coefficients[::-1], y) for y in grid]
        errors = [f / value - 1 for f, value in zip(fitted, values, strict=True)]
        worst = max(map(abs, errors))
        if worst < 1.001 * abs(level):
            return coefficients, worst
        places = extrema(errors)
        while len(places) > TERMS + 1:
            places.pop(0 if abs(errors[places[0]]) < abs(errors[places[-1]]) else -1)
        nodes = [grid[i] for i in places]
    raise RuntimeError("the exchange does not converge")


if __name__ == "__main__":
    coefficients, error = fit()
    for number, coefficient in enumerate(coefficients):
        print(f"C{number} = {mp.nstr(coefficient, 11)}")
    print(f"relative error 2^{mp.nstr(mp.log(error, 2), 4)}")
