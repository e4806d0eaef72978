package plan

// Rules is the version of what Mneme itself brings to a window: its texts, how it counts, and the law. A decision
// records it, because a window made under one version cannot be made again, byte for byte, under another. Whoever
// changes one of them in a released program raises it.
const Rules = 1
