"""What the pages of real tables say about each: its source, and what the components are.

Components are described by what they hold and not by their numbers, so that a text stays true when
a fit finds them in another order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class TableText:
    """A table of the data folder; `labels` are longer names of columns for the picture."""

    name: str
    title: str
    about: str
    meaning: str
    left_out: tuple[str, ...] = ()
    left_out_because: str = ""
    overrides: Mapping[str, str] = field(default_factory=dict)
    overrides_because: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


PENGUINS = TableText(
    name="penguins",
    title="Penguins",
    about="Penguins of three species on three islands near Palmer Station, Antarctica (R package "
    "modeldata).",
    meaning="The components are the species, of which Adelie and Gentoo penguins are divided into "
    "females and males. Males are heavier and have longer and deeper bills, so that the sex of "
    "such a bird for which it was not recorded can be told from its measurements. Only Adelie "
    "penguins live on all three islands.",
    labels={
        "bill_length_mm": "bill length, mm",
        "bill_depth_mm": "bill depth, mm",
        "flipper_length_mm": "flipper length, mm",
        "body_mass_g": "body mass, g",
    },
)
TITANIC = TableText(
    name="titanicsurvival",
    title="Titanic",
    about="Passengers of the Titanic (R package carData). The age of a fifth of them is missing.",
    meaning="Half of all passengers are a group of about 25 years, mostly men of the third class, "
    "of whom few survived; older men, of all classes, died. Two groups survived: passengers of the "
    "first class, most of them women, and young women of all classes. Small children are a group "
    "of their own, mostly of the third class, of whom two thirds survived.",
    overrides={"age": "gaussian"},
    overrides_because="Ages are mostly whole numbers. With a log-normal distribution of age, "
    "components beyond five can collapse on a single age: BIC decreases without meaning, and "
    "`n_degenerate_` counts such components. A Gaussian distribution is never narrower than the "
    "steps of a column, so it is given to `age` here.",
    labels={"passengerClass": "class"},
)
HOUSE_VOTES = TableText(
    name="mlbench_housevotes84",
    title="House votes",
    about="Votes of the members of the House of Representatives on 16 questions in 1984, and their "
    "parties (R package mlbench). A vote that was not cast is a missing cell.",
    meaning="Three components are Democrats and two are Republicans. The largest groups of the two "
    "parties vote against each other on most questions. A group of Democrats votes with the "
    "Republicans on aid to El Salvador and to the Contras, on the missile and on religion in "
    "schools; a smaller group of Republicans votes with the Democrats on the test ban.",
    labels={
        "Class": "party",
        "V1": "handicapped infants",
        "V2": "water project",
        "V3": "budget resolution",
        "V4": "physician fee freeze",
        "V5": "aid to El Salvador",
        "V6": "religion in schools",
        "V7": "anti-satellite test ban",
        "V8": "aid to Contras",
        "V9": "MX missile",
        "V10": "immigration",
        "V11": "synfuels cutback",
        "V12": "education spending",
        "V13": "superfund right to sue",
        "V14": "crime",
        "V15": "duty-free exports",
        "V16": "South Africa exports",
    },
)
BOYS = TableText(
    name="boys",
    title="Growth of boys",
    about="Dutch boys from birth to 21 years, of the Fourth Dutch Growth Study (R package mice). "
    "Stages of puberty are recorded from about 8 years on.",
    meaning="The components are ages, from the first months to young men, and height, weight, head "
    "circumference and stages of puberty follow. Where a dash is shown no boy of the component was "
    "examined for puberty, and the prior gives it the stages of all boys: look at such cells "
    "before you impute them. The region plays hardly any part.",
    labels={
        "age": "age, years",
        "hgt": "height, cm",
        "wgt": "weight, kg",
        "bmi": "body mass index",
        "hc": "head circumference, cm",
        "gen": "genital stage",
        "phb": "pubic hair",
        "tv": "testicular volume, ml",
        "reg": "region",
    },
)
PBC = TableText(
    name="pbc",
    title="Liver disease (pbc)",
    about="Patients with primary biliary cholangitis at the Mayo Clinic (R package survival). "
    "`status` is 0 for alive, 1 for a transplant and 2 for dead at the end of the study.",
    meaning="The components are degrees of the disease. In the mildest one, with low bilirubin, "
    "few died; in a middle one, with high cholesterol, about half did. In the severe one nearly "
    "all died: it is older and has ascites, edema, high bilirubin and few platelets. The "
    "treatment, which was drawn by lot, differs little.",
    left_out=("id",),
    left_out_because="The key `id` is left out.",
    labels={
        "time": "days observed",
        "trt": "treatment",
        "hepato": "large liver",
        "bili": "bilirubin",
        "chol": "cholesterol",
        "copper": "copper in urine",
        "alk.phos": "alkaline phosphatase",
        "trig": "triglycerides",
        "platelet": "platelets",
        "protime": "clotting time",
    },
)
NMES = TableText(
    name="nmes_ofp_visits",
    title="Visits to physicians (NMES)",
    about="People of 66 years and more in the National Medical Expenditure Survey of the United "
    "States, 1987 (R package Ecdat): numbers of visits of six kinds, health, income and insurance.",
    meaning="A small group of ill people, with several chronic conditions, has by far the most "
    "visits of all kinds and stays in hospital. The others differ by income and insurance: married "
    "people with private insurance, who are healthy if their income is high; women who are not "
    "married; and people with little school, most without private insurance, of whom many are "
    "limited in their daily lives.",
    labels={
        "ofp": "physician visits",
        "ofnp": "other office visits",
        "opp": "outpatient, physician",
        "opnp": "outpatient, other",
        "emr": "emergency visits",
        "hosp": "hospital stays",
        "numchron": "chronic conditions",
        "adldiff": "limited in daily life",
        "age": "age, decades",
        "maried": "married",
        "school": "years of school",
        "faminc": "income, $10,000",
        "privins": "private insurance",
        "hlth": "health",
    },
)
CHURN = TableText(
    name="wa_churn",
    title="Customers who leave (wa_churn)",
    about="Customers of a telephone company, their services and contracts, and who left, `churn` "
    "(R package modeldata).",
    meaning="Three components have no internet service and low charges; their customers rarely "
    "leave unless they are new. Of those with internet, customers of many years, with contracts of "
    "a year or two, pay most and rarely leave either. New customers with monthly contracts, "
    "without security or support, mostly leave. Whether a customer is a woman plays no part.",
    labels={"tenure": "tenure, months"}
    | {
        name: name.replace("_", " ")
        for name in (
            "senior_citizen",
            "phone_service",
            "multiple_lines",
            "internet_service",
            "online_security",
            "online_backup",
            "device_protection",
            "tech_support",
            "streaming_tv",
            "streaming_movies",
            "paperless_billing",
            "payment_method",
            "monthly_charges",
            "total_charges",
        )
    },
)
STOPS = TableText(
    name="mplsstops",
    title="Police stops in Minneapolis",
    about="Stops by the police of Minneapolis in 2017, with date and place (R package carData).",
    meaning="The components are first of all places: the police precincts, some of them divided by "
    "the kind of stop. Where few stops are for traffic, race and gender are mostly unknown. In the "
    "north-west (precinct 4) most of the people stopped for traffic are black and one in five is "
    "searched; in the south-west (precinct 5), where most of a group are white, hardly anyone is. "
    "The date plays hardly any part.",
    left_out=("idNum", "neighborhood"),
    left_out_because="The key `idNum` is left out, and `neighborhood`, whose 87 levels are given "
    "by the place.",
    labels={
        "citationIssued": "citation issued",
        "personSearch": "person searched",
        "vehicleSearch": "vehicle searched",
        "preRace": "race, before",
        "policePrecinct": "precinct",
    },
)
TAXIS = TableText(
    name="nyc_taxis",
    title="Taxis",
    about="Rides with taxis in New York in March 2019 (seaborn).",
    meaning="The components are lengths of rides and ways of paying. Short rides in Manhattan paid "
    "by card have tips, rides paid in cash have none, as these are not recorded. Longer rides go "
    "more often beyond Manhattan, and few long ones, about half of them from Queens, where the "
    "airports are, have tolls. A column in which all rides of a component have the same value, "
    "such as no toll, is degenerate there, of which a warning tells.",
    left_out=("pickup_zone", "dropoff_zone"),
    left_out_because="The zones are left out, as the boroughs are in the table.",
    labels={
        "distance": "distance, miles",
        "fare": "fare, $",
        "tip": "tip, $",
        "tolls": "tolls, $",
        "total": "total, $",
        "pickup_borough": "from",
        "dropoff_borough": "to",
        "duration_s": "duration, s",
    },
)
DIAMONDS = TableText(
    name="diamonds",
    title="Diamonds",
    about="Prices and properties of diamonds (R package ggplot2).",
    meaning="The components are mostly sizes, and prices rise with them, from about 500 to 12,000 "
    "dollars. Larger stones more often have the worse colours (I and J) and the worse clarity SI2, "
    "so that stones of worse colour are dearer in the mean of all stones.",
    labels={"x": "length, mm", "y": "width, mm", "z": "height, mm", "price": "price, $"},
)
TABLES = (
    PENGUINS,
    TITANIC,
    HOUSE_VOTES,
    BOYS,
    PBC,
    NMES,
    CHURN,
    STOPS,
    TAXIS,
    DIAMONDS,
)
