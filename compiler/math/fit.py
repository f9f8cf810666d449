#!/usr/bin/env python3
"""Prints Coefficients.h: the polynomials of Functions.h, by interpolation at Chebyshev nodes with 60 digits (needs mpmath).

Usage: fit.py > Coefficients.h. Each row: what is approximated, over which interval, by which degree. Each polynomial's worst relative error over
the interval goes to standard error; it must lie well below half a unit in the last place of the type (6e-8 or 1.1e-16) times what the polynomial adds.
"""
import sys
from mpmath import mp, mpf, chebyt, cos, pi, exp, log, erf, erfc, sqrt, tanh, sin, atan, matrix, lu_solve, qr_solve, diff, taylor

mp.dps = 60


def interpolate(f, low, high, degree):
    """Monomial coefficients of the polynomial through f at the Chebyshev nodes of [low, high]."""
    low, high = mpf(low), mpf(high)
    n = degree + 1
    nodes = [(low + high) / 2 + (high - low) / 2 * cos(pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    # Newton's divided differences, then expansion around 0: exact enough with 60 digits.
    table = [f(x) for x in nodes]
    newton = [table[0]]
    for level in range(1, n):
        table = [(table[i + 1] - table[i]) / (nodes[i + level] - nodes[i]) for i in range(n - level)]
        newton.append(table[0])
    coefficients = [newton[-1]]
    for k in range(n - 2, -1, -1):
        shifted = [mpf(0)] + coefficients
        for i, c in enumerate(coefficients):
            shifted[i] -= nodes[k] * c
        shifted[0] += newton[k]
        coefficients = shifted
    return coefficients


def weighted(f, weight, low, high, degree):
    """Monomial coefficients of the polynomial whose error times the weight is least in the sum of squares over 6 (degree + 1) Chebyshev nodes."""
    low, high, count = mpf(low), mpf(high), 6 * (degree + 1)
    nodes = [(low + high) / 2 + (high - low) / 2 * cos(pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    system, right = matrix(count, degree + 1), matrix(count, 1)
    for i, x in enumerate(nodes):
        for j in range(degree + 1):
            system[i, j] = weight(x) * x**j
        right[i] = weight(x) * f(x)
    return list(qr_solve(system, right)[0])


def worst(f, coefficients, low, high):
    error = mpf(0)
    for i in range(401):
        x = mpf(low) + (mpf(high) - mpf(low)) * i / 400
        exact = f(x)
        value = mpf(0)
        for c in reversed(coefficients):
            value = value * x + c
        if exact != 0:
            error = max(error, abs(value / exact - 1))
    return error


def at0(f, limit):
    """f with its removable singularity at 0 filled in."""
    return lambda z: mpf(limit) if abs(z) < mpf(10) ** -40 else f(z)


def scaled_erfcx(shift):
    """(1 + 2 a) exp(a^2) erfc(a) as a function of q = (a - shift) / (a + shift)."""
    def f(q):
        a = shift * (1 + q) / (1 - q)
        return (1 + 2 * a) * exp(a * a) * erfc(a)
    return f


def rational(f, nodes, p_degree, q_degree, scale):
    """Coefficients of P and Q with P(x) = f(x) Q(x) at the nodes and Q(0) = scale."""
    n = p_degree + q_degree + 1
    system, right = matrix(n, n), matrix(n, 1)
    for i, x in enumerate(nodes):
        for j in range(p_degree + 1):
            system[i, j] = x**j
        for j in range(1, q_degree + 1):
            system[i, p_degree + j] = -f(x) * x**j
        right[i] = f(x)
    solution = lu_solve(system, right)
    return ([scale * solution[j] for j in range(p_degree + 1)],
            [mpf(scale)] + [scale * solution[p_degree + j] for j in range(1, q_degree + 1)])


def mills():
    """exp(a^2 / 2) Phi(-a) = P(a) / Q(a) on [0, 14.6], for gelu of singles. The nodes are Chebyshev's in (a - 3) / (a + 3), where the function
    bends evenly. The scale does not change the quotient but how coefficients and sums round: of 400 scales in [1, 2) the one with the least
    error of gelu in singles."""
    f = lambda a: exp(a * a / 2) * erfc(a / sqrt(mpf(2))) / 2
    high, shift, p_degree, q_degree, scale = mpf("14.6"), 3, 4, 5, mpf(2) ** (mpf(314) / 400)
    n = p_degree + q_degree + 1
    end = (high - shift) / (high + shift)
    places = [(end - 1) / 2 + (end + 1) / 2 * cos(pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    p, q = rational(f, [shift * (1 + x) / (1 - x) for x in places], p_degree, q_degree, scale)
    value = lambda c, x: sum(c[k] * x**k for k in range(len(c)))
    error = max(abs(value(p, x) / value(q, x) / f(x) - 1) for x in [high * i / 800 for i in range(801)])
    print(f"Mills32: {mp.nstr(error, 3)}", file=sys.stderr)
    for name, coefficients in (("P", p), ("Q", q)):
        declare(f"Mills32{name}", f"{name} of exp(a^2 / 2) Phi(-a) = P(a) / Q(a) on [0, 14.6]", coefficients)


def declare(name, text, coefficients):
    print(f"// {text}")
    print(f"inline constexpr double k{name}[] = {{{', '.join(mp.nstr(c, 18) for c in coefficients)}}};")


half_ln2 = log(2) / 2 * mpf("1.01")
rows = [
    # name, function, interval, degree for f32 and f64 (None: not needed)
    ("Exp", "(exp(r) - 1 - r) / r^2", at0(lambda r: (mp.expm1(r) - r) / r**2, 0.5), -half_ln2, half_ln2, 4, 10),
    ("ExpMiddle", "(exp(r) - 1 - r) / r^2", at0(lambda r: (mp.expm1(r) - r) / r**2, 0.5), -half_ln2, half_ln2, 5, None),
    ("Log1p", "(log(1 + f) - f + f^2/2) / f^3", at0(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, mpf(1) / 3), mpf("-0.293"), mpf("0.4143"), 8, None),
    ("Log", "(log((1+s)/(1-s)) - 2 s) / s^3, over z = s^2", at0(lambda z: (log((1 + sqrt(z)) / (1 - sqrt(z))) - 2 * sqrt(z)) / (sqrt(z) * z), mpf(2) / 3), 0, mpf("0.0296"), 3, 7),
    ("LogTail", "(log((1+s)/(1-s)) - 2 s - 2/3 s^3) / s^5, over z = s^2", at0(lambda z: (log((1 + sqrt(z)) / (1 - sqrt(z))) - 2 * sqrt(z) - 2 * z * sqrt(z) / 3) / (sqrt(z) * z * z), mpf(2) / 5), 0, mpf("0.0296"), None, 7),
    ("Tanh", "(tanh(x) - x) / x^3, over z = x^2", at0(lambda z: (tanh(sqrt(z)) - sqrt(z)) / (sqrt(z) * z), -mpf(1) / 3), 0, mpf("0.36"), 5, 13),
    ("Erf", "erf(x) / x - 1, over z = x^2", at0(lambda z: erf(sqrt(z)) / sqrt(z) - 1, 2 / sqrt(pi) - 1), 0, mpf("1.0"), 7, 14),
    ("ErfNear", "erf(x) / x - 1, over z = x^2", at0(lambda z: erf(sqrt(z)) / sqrt(z) - 1, 2 / sqrt(pi) - 1), 0, mpf("0.87"), 6, None),
    ("ErfTail", "log(erfc(a)) / a + 1", lambda a: log(erfc(a)) / a + 1, mpf("0.92"), 4, 7, None),
    ("ErfcxNear", "(1 + 2a) exp(a^2) erfc(a) - 1, over q = (a - 4) / (a + 4)", lambda q: scaled_erfcx(4)(q) - 1, -1, mpf("0.46"), 11, None),
    ("Erfcx", "(1 + 2a) exp(a^2) erfc(a) - 1, over q = (a - 4) / (a + 4)", lambda q: scaled_erfcx(4)(q) - 1, -1, mpf("0.82"), None, 29),
    ("Atan", "(atan(t) - t) / t^3, over z = t^2", at0(lambda z: (atan(sqrt(z)) - sqrt(z)) / (sqrt(z) * z), -mpf(1) / 3), 0, mpf("0.2501"), 5, 12),
    ("Sin", "(sin(x) - x) / x^3, over z = x^2", at0(lambda z: (sin(sqrt(z)) - sqrt(z)) / (sqrt(z) * z), -mpf(1) / 6), 0, mpf("0.62"), 2, 6),
    ("Cos", "(cos(x) - 1 + z/2) / z^2, over z = x^2", at0(lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, mpf(1) / 24), 0, mpf("0.62"), 2, 6),
]

print("// Written by fit.py; lowest power first.")
print("#pragma once\n")
print("namespace weft::compiler::math {\n")
for name, text, f, low, high, degree32, degree64 in rows:
    for bits, degree in ((32, degree32), (64, degree64)):
        if degree is None:
            continue
        coefficients = interpolate(f, low, high, degree)
        print(f"{name}{bits}: {mp.nstr(worst(f, coefficients, low, high), 3)}", file=sys.stderr)
        declare(f"{name}{bits}", f"{text} on [{mp.nstr(mpf(low), 6)}, {mp.nstr(mpf(high), 6)}]", coefficients)
log_erfc = lambda a: log(erfc(a)) / a + 1
# Of doubles what counts is the error of 1 - erfc(a), in units of 1.
tail = weighted(log_erfc, lambda a: a * erfc(a) + mpf(10) ** -19, 1, mpf("5.95"), 17)
error = max(abs(sum(c * a**k for k, c in enumerate(tail)) - log_erfc(a)) * a * erfc(a) for a in [1 + mpf(i) / 81 for i in range(401)])
print(f"ErfTail64, of erf: {mp.nstr(error, 3)}", file=sys.stderr)
declare("ErfTail64", "log(erfc(a)) / a + 1 on [1.0, 5.95]", tail)
mills()
with mp.workdps(420):
    digits = ", ".join(str(int(mp.floor(2 / pi * mpf(2) ** (24 * (i + 1)))) % 2**24) for i in range(48))
print("// 2 / pi in digits of 24 bits, as many as an argument of any exponent needs")
print(f"inline constexpr double kTwoOverPi[] = {{{digits}}};")
print("\n} // namespace weft::compiler::math")
