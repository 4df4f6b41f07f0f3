"""The commands, one entry each: what it is called, what it takes, what it does."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from . import (
    agent,
    annotating,
    asking,
    benching,
    choosing,
    demo,
    project,
    setting,
    studio,
    suggesting,
    theorising,
    training,
    tuning,
    watching,
)


@dataclass(frozen=True)
class Command:
    """A command declared by data: name, help, how to add its arguments, what to run."""

    name: str
    summary: str
    details: str
    arguments: Any
    run: Any

    def add(self, parsers: Any, *, whole: bool) -> None:
        """Declare it; of one that is not to run the name and the summary are enough."""
        made = parsers.add_parser(
            self.name,
            help=self.summary,
            description=f"{self.summary}\n\n{self.details}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if whole:
            self.arguments(made)
            made.add_argument(
                "--json",
                metavar="FILE",
                help="also write the result as JSON; - for standard output",
            )
            made.set_defaults(run=self.run)


ALL: tuple[Command, ...] = (
    Command(
        "demo",
        "The whole loop on real data, offline, in seconds.",
        "Writes a project folder with 1,797 handwritten digits and 16 labeling functions, labels it\n"
        "before and after extension, and shows what extension gained. Go on from there:\n"
        "  epoxy report epoxy-demo     epoxy watch epoxy-demo     epoxy studio epoxy-demo",
        demo.arguments,
        demo.run,
    ),
    Command(
        "new",
        "Make a project folder around a file of rows.",
        "The folder holds epoxy.toml (which rows, columns, classes), lfs.py (your labeling functions)\n"
        "and labels/ (what comes out). Rows come as .parquet, .csv, .tsv or .jsonl. Rows that have a\n"
        "true label become the dev set; a hundred are a good start.\n\n"
        "  epoxy new spam/ --rows comments.csv --classes ham,spam --text text",
        project.new_arguments,
        project.new,
    ),
    Command(
        "label",
        "Vote, embed, extend, combine: write labels for every row.",
        "Writes labels/labels.parquet, a line for every row of the rows file: id, label, its probability,\n"
        "the probability of each class, how many votes (own and lent) it rests on, whether a person\n"
        "labelled it and what as. A label that is trusted is the label; one of a labeller who may be wrong\n"
        "is evidence, and has no truth. Votes and vectors are kept and only made again when a function or a\n"
        "row changes. Where a function failed and has no vote at all, the labels are written without it and\n"
        "the exit code is 2, unless --allow-errors.\n\n"
        "--memory labels in shards that fit into it, for rows in Parquet that do not: the labels are the\n"
        "same, and a killed run goes on. --new FILE labels the rows of FILE by the project's model;\n"
        "the project's own may be CSV or JSON lines, unless --memory or a cluster is asked for too.",
        project.label_arguments,
        project.label,
    ),
    Command(
        "tune",
        "Choose on the labelled rows what the model leaves open, and say what that is worth.",
        "Fusion (the default) weighs its parts whenever it is fitted and leaves nothing open. With --model\n"
        "epoxy: how far each function may speak, one radius for all first, then one function at a time\n"
        "where the gain is beyond chance; prints what was tried and what the winning score is really\n"
        "worth, and keeps the radii for that model alone. Ctrl-C keeps the best so far.",
        tuning.arguments,
        tuning.run,
    ),
    Command(
        "report",
        "What each function does, before and after extension, and how right it is.",
        "Polarity, coverage, overlaps and conflicts; how often own and lent votes are right on dev, with\n"
        "intervals; what the label model thinks of each function; its radius.",
        project.report_arguments,
        project.report,
    ),
    Command(
        "explain",
        "Why one row has its label.",
        "Every function's vote on the row: its own, or lent by which row at which distance, and what it\n"
        "adds to the log-odds; the majority vote beside it.",
        project.explain_arguments,
        project.explain,
    ),
    Command(
        "export",
        "Write the labels as Parquet, CSV, JSON lines or a Hugging Face dataset.",
        "The kind follows from the file's ending, or from --format. --columns adds columns of the rows,\n"
        "such as the text. In CSV, a quote is put before cells that a spreadsheet would take for formulas\n"
        "(those that begin with =, +, -, @ or a tab), unless --raw.\n\n"
        "  epoxy export spam/ --to labels.csv --columns text,url",
        project.export_arguments,
        project.export,
    ),
    Command(
        "theory",
        "What the theory predicts for your functions, and what happens on dev.",
        "For each function: radius against coverage, accuracy, lift and bound; a plain verdict on whether\n"
        "extension will help, for which functions, and why. --figures DIR draws one picture each.",
        theorising.theory_arguments,
        theorising.theory,
    ),
    Command(
        "synthetics",
        "The paper's two synthetic experiments, with their claims checked.",
        "10,000 points in the unit square, three functions, the first extended: four accuracies on a\n"
        "checkerboard, and four label distributions from smooth to random. About ten seconds.",
        theorising.synthetics_arguments,
        theorising.synthetics,
    ),
    Command(
        "train",
        "Fit an end model on the labels, save it, and label new rows with it.",
        "A linear layer or nearest neighbours on the vectors, or a pre-trained network fine-tuned on the\n"
        "probabilities (needs the torch extra). Saved without pickle.\n\n"
        "  epoxy train spam/ --model linear --predict tomorrow.csv --to labels.csv",
        training.arguments,
        training.run,
    ),
    Command(
        "bench",
        "The paper's tables on your data: every baseline, one protocol.",
        "Data folders in the form of train/dev/test.parquet with votes-*.npy, vectors-*.npy and meta.json.\n"
        "Train labels are never read, dev labels tune and fit, test labels are read once. A killed run\n"
        "continues where it stopped.",
        benching.arguments,
        benching.run,
    ),
    Command(
        "next",
        "Which rows to look at, and why.",
        "mix: seven rows that teach to three drawn at random, on which scores rest. teach: the model is\n"
        "unsure of them and of rows around them. score: drawn at random. cover: dense regions nobody votes\n"
        "on. conflict: functions quarrel. check: labels and votes that look wrong. Nothing is kept; the\n"
        "same rows come until one is labelled, by epoxy annotate or in the studio.\n\n"
        "  epoxy next spam/ --purpose cover -n 5",
        choosing.arguments,
        choosing.run,
    ),
    Command(
        "annotate",
        "Label rows by keyboard at the terminal, in the order that helps.",
        "Shows one row at a time with the reason it was chosen: seven rows that teach to three drawn at\n"
        "random, on which scores rest. Digits label, s skips, w says why the row has the label it has,\n"
        "u takes the last label back, q ends. Every label is kept and learned from as soon as its key is\n"
        "pressed. Keys may be piped in.",
        annotating.arguments,
        annotating.run,
    ),
    Command(
        "suggest",
        "Functions that could be added: words, patterns and example rows, and how right each would be.",
        "Found on one half of the rows, from hand labels and from what the model makes of the others, and\n"
        "judged on the other half: coverage, how often it is right with a 90 % interval and what that\n"
        "rests on, the rows it adds, and rows it looks right and wrong about. --accept writes them to\n"
        "lfs.py.\n\n"
        "  epoxy suggest spam/ --class spam\n"
        "  epoxy suggest spam/ --class spam --accept 1 3",
        suggesting.arguments,
        suggesting.run,
    ),
    Command(
        "ask",
        "Ask a language model about rows, within a budget, and take its answers as fallible labels.",
        "Any server that speaks the OpenAI chat-completions protocol, by default one on this machine. The\n"
        "task, the classes and the columns that are sent stand in DIR/ask.toml, which is written on first\n"
        "use for you to edit. What leaves the machine, and where to, is shown before the first call.\n"
        "Answers are kept: nothing is paid twice, and a killed run goes on where it was. One row in\n"
        "five is one that you labelled, so that the report can say how often answers are right.\n\n"
        "  epoxy ask spam/ --model llama3.1 --budget 300\n"
        "  epoxy ask spam/ --model gpt-4o-mini --budget 300 --endpoint https://api.openai.com/v1",
        asking.arguments,
        asking.run,
    ),
    Command(
        "set",
        "Set how far a function lends, or switch it off or on again.",
        "One decision, kept in the project's log as one of the studio or of a session is: all who have the\n"
        "project open follow it, and it holds until it is decided anew. Prints what it changed, and the\n"
        "command that takes it back. A radius set here binds every model, and takes the place of one that\n"
        "epoxy tune chose.\n\n"
        "  epoxy set spam/ song --radius 0.2\n"
        "  epoxy set spam/ song --off",
        setting.arguments,
        setting.run,
    ),
    Command(
        "watch",
        "Save lfs.py in any editor and see what changed.",
        "Shows coverage, dev scores, the rows whose label flipped and the milliseconds, in place, until\n"
        "Ctrl-C; also of what other sessions of the project decide meanwhile.",
        watching.arguments,
        watching.run,
    ),
    Command(
        "studio",
        "The project in a browser: edit, label, move a radius, and watch every label change.",
        "Serves on this machine alone, prints one line with the address (its token opens the page) and\n"
        "ends with Ctrl-C. Save lfs.py in any editor meanwhile. Needs: pip install 'epoxy-ws[studio]'.\n\n"
        "  epoxy studio spam/",
        studio.arguments,
        studio.run,
    ),
    Command(
        "mcp",
        "The project for an agent: a session's verbs as tools of the Model Context Protocol.",
        "Speaks on standard input and output, for a client that starts it. Reading is free; without\n"
        "--write nothing is kept and no Python of an agent's is run. With it, functions, radii, switches\n"
        "and labels go to the log under the agent's name and can be undone. Needs:\n"
        "pip install 'epoxy-ws[agent]'.\n\n"
        "  epoxy mcp spam/",
        agent.arguments,
        agent.run,
    ),
)
