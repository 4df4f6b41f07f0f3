"""Labeling functions over handwritten digits, as a person would put it.

Each looks at what can be said of a digit without reading pixels (holes, strokes, where the ink is) and
names one digit, or returns None to abstain. None is right everywhere; together, and extended to digits
that look alike, they are enough.
"""

import epoxy


@epoxy.labeling_function
def one_big_hole(row):
    return "0" if row.hole_size >= 4 else None


@epoxy.labeling_function
def two_strokes_all_the_way(row):
    two = row.strokes_high == row.strokes_middle == row.strokes_low == 2
    return "0" if two else None


@epoxy.labeling_function
def narrow(row):
    return "1" if row.width <= 3 else None


@epoxy.labeling_function
def one_stroke_in_the_middle(row):
    one = row.strokes_high == row.strokes_middle == row.strokes_low == 1
    return "1" if one and row.holes == 0 and row.center > 0.55 else None


@epoxy.labeling_function
def wide_foot_leaning_left(row):
    wide = row.width_bottom >= 5 and row.bottom_left > 0.27
    return "2" if wide and row.holes == 0 else None


@epoxy.labeling_function
def little_ink_on_the_left(row):
    left = row.top_left + row.bottom_left
    return "3" if row.holes == 0 and left < 0.38 and row.center < 0.4 else None


@epoxy.labeling_function
def two_arms(row):
    return "4" if row.holes == 0 and row.strokes_middle == 2 and row.width_top <= 3 else None


@epoxy.labeling_function
def thin_top_wide_body(row):
    return "4" if row.width_top <= 3 and row.width >= 6 and row.strokes_low == 1 else None


@epoxy.labeling_function
def full_top_left(row):
    return "5" if row.top_left > 0.33 and row.bottom_left < 0.25 else None


@epoxy.labeling_function
def low_hole(row):
    return "6" if row.holes == 1 and row.hole_height > 0.65 else None


@epoxy.labeling_function
def empty_top_right(row):
    return "6" if row.top_right < 0.1 else None


@epoxy.labeling_function
def wide_roof_thin_foot(row):
    return "7" if row.holes == 0 and row.width_top >= 5 and row.width_bottom <= 3 else None


@epoxy.labeling_function
def two_holes(row):
    return "8" if row.holes >= 2 else None


@epoxy.labeling_function
def pinched_waist(row):
    pinched = row.strokes_high == 2 and row.strokes_middle == 1 and row.strokes_low == 2
    return "8" if pinched else None


@epoxy.labeling_function
def high_hole(row):
    high = row.holes == 1 and row.hole_height < 0.32 and row.hole_size < 4
    return "9" if high and row.bottom_left < 0.2 else None


@epoxy.labeling_function
def two_strokes_high_nothing_low_left(row):
    return "9" if row.strokes_high == 2 and row.bottom_left < 0.12 else None
