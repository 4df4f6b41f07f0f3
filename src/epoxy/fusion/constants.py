"""Every constant of the default model: what it is, and what it does.

None was chosen for one data set: they were tuned on dev rows of eleven sets, none of them on test.
docs/explanation/default-model.md has what each part buys.
"""

# votes
VOICES = 2.0
"""A prior, of classes or of a row's surroundings, counts as so many votes."""
COPY, CHANCE = 0.75, 10
"""A source repeats another if so much of their votes is the same; below ten votes that is chance."""
LEAST_SHARE = 0.2
"""Of an equal share: no class is taken to be rarer before labels say so."""
VOTER_POWER = 1 / 3
"""Shares of votes are raised to it where sources name several classes, and so may lean to one."""

# vectors and neighbours
AXES, BEND = 384, 0.25
"""Principal axes that are read, and the power of its variance by which each is stretched."""
WAVES, FEW_DIMENSIONS, BANDWIDTH = 512, 128, 2.0
"""Random Fourier features of vectors of fewer dimensions, as columns of tables are."""
RIDGE = 5.0
"""Of the regression of what votes say on features."""
NEAREST = 30
"""Train rows around a row."""
AROUND = 0.7
"""What these say counts so much."""
FAINT = 0.02
"""Shares are read as at least so far from 0 and from 1."""
TELLS = 0.5
"""Slope of votes on what vectors foretell of them from which vectors are believed."""

# who lends, and who is heard
BUDGET, SUPPORTED, FLOOR = 2.0, 0.8, 0.1
"""Under "auto" a source lends to at most so many times its own rows, as far as what it lends is supported so
much as what it says itself, and at least by so much probability."""
BETTER, ASKED = 0.025, 4
"""A source is not heard if the others are better supported without it by so much log-odds in the mean; of at
most so many it is asked."""

# hand labels
LOUD_FEATURES, LOUD_VOTES, RIDGE_BIAS = 1.1, 0.5, 3.0
"""How loud features and votes are in the correction, whose ridge is 1; the ridge of its bias."""
RIDGE_PART = 8.0
"""Ridge of what labels change in the weights of parts, and in that of the likest labelled rows."""
LIKEST, LIKEST_WEIGHT, TWIN = 5, 0.15, 0.02
"""Labelled rows that are asked, how much they count, and what keeps an equal one from counting endlessly."""
SLIPS = (0.01, 0.05)
"""About one label of all is a slip: of many at least this share, of few at most that."""

# the sum
SCALES = (1.35, 0.9)
"""What the sum is multiplied by: where vectors alone speak, and where votes do, which repeat each other."""
AGREEMENT = 0.35
"""How loud the triplet model is beside counts, where vectors do not tell."""
