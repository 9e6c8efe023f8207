// The words of PromQL that are completed, with what each gives.
export interface Word {
  word: string;
  takes: string; // its arguments, empty for what takes none
  gives: string;
}

function words(takes: string, told: Record<string, string>): Word[] {
  return Object.entries(told).map(([word, gives]) => ({ word, takes, gives }));
}

export const AGGREGATIONS: Word[] = [
  ...words("(vector)", {
    sum: "added up",
    avg: "the mean",
    max: "the largest",
    min: "the smallest",
    count: "how many series there are",
    group: "1 for each group",
    stddev: "how far they spread",
    stdvar: "the square of their spread",
  }),
  ...words("(k, vector)", { topk: "the k largest", bottomk: "the k smallest", limitk: "any k of them" }),
  ...words("(q, vector)", { quantile: "the value that a share q lies below" }),
  ...words('("label", vector)', { count_values: "how many have each value" }),
];

export const FUNCTIONS: Word[] = [
  ...words("(range)", {
    rate: "the increase a second of a counter",
    irate: "the same, of the last two samples",
    increase: "by how much a counter rose",
    delta: "by how much a gauge changed",
    idelta: "the same, of the last two samples",
    deriv: "the slope a second",
    changes: "how often the value changed",
    resets: "how often a counter began anew",
    avg_over_time: "the mean over time",
    min_over_time: "the smallest over time",
    max_over_time: "the largest over time",
    sum_over_time: "added up over time",
    count_over_time: "how many samples",
    last_over_time: "the latest sample",
    first_over_time: "the first sample",
    present_over_time: "1 where there was any sample",
    stddev_over_time: "the spread over time",
    stdvar_over_time: "the square of the spread",
    mad_over_time: "the median distance from the median",
    absent_over_time: "1 where there was none",
  }),
  ...words("(q, range)", { quantile_over_time: "the value that a share q of the time lies below" }),
  ...words("(range, seconds)", { predict_linear: "the value in so many seconds" }),
  ...words("(q, buckets)", { histogram_quantile: "a quantile from the buckets of a histogram" }),
  ...words("(vector)", {
    abs: "without its sign",
    absent: "1 where there is none",
    ceil: "rounded up",
    floor: "rounded down",
    exp: "e to that power",
    ln: "natural logarithm",
    log2: "logarithm to 2",
    log10: "logarithm to 10",
    sqrt: "square root",
    sgn: "-1, 0 or 1",
    sort: "smallest first",
    sort_desc: "largest first",
    timestamp: "when the sample was taken",
    scalar: "the value of the only series",
    hour: "hour of the day, UTC",
    minute: "minute of the hour",
    day_of_week: "0 is Sunday",
    day_of_month: "1 to 31",
    days_in_month: "28 to 31",
    month: "1 to 12",
    year: "the year",
  }),
  ...words("(vector, to)", { round: "rounded to a multiple" }),
  ...words("(vector, low, high)", { clamp: "kept between two values" }),
  ...words("(vector, low)", { clamp_min: "at least that" }),
  ...words("(vector, high)", { clamp_max: "at most that" }),
  ...words('(vector, "to", "$1", "from", "(.*)")', { label_replace: "a label made of another" }),
  ...words('(vector, "to", ", ", "a", "b")', { label_join: "a label made of several" }),
  ...words('(vector, "label")', { sort_by_label: "in the order of a label" }),
  ...words("(scalar)", { vector: "a series of one value" }),
  ...words("()", { time: "the moment that is looked at", pi: "3.14159" }),
];

export const KEYWORDS: Word[] = words("", {
  by: "keeps these labels",
  without: "drops these labels",
  on: "matches by these labels",
  ignoring: "matches by all other labels",
  group_left: "many on the left to one on the right",
  group_right: "one on the left to many on the right",
  and: "those that are on the right too",
  or: "those of either side",
  unless: "those that are not on the right",
  offset: "as it was so long ago",
  bool: "0 or 1 instead of a filter",
});

export const SPANS = ["1m", "5m", "15m", "30m", "1h", "6h", "12h", "1d", "7d"];

export const CALLED = new Set([...AGGREGATIONS, ...FUNCTIONS].map((one) => one.word));
export const RESERVED = new Set(KEYWORDS.map((one) => one.word));
