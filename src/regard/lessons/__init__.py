"""Why it is so: each lesson computes or measures one claim about attention and draws it.

>>> from regard.lessons import scaling
>>> result = scaling.measure(sizes=(1, 64), draws=64)
>>> print(result.finding())  # doctest: +SKIP
>>> scaling.draw(result)  # doctest: +SKIP
"""
