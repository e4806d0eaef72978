package plan

// Rules is the version of what Mneme itself contributes to a window: its texts, how it counts, and the validity check.
// Decisions record it, because a window made under one version cannot be reproduced byte for byte under another.
// Increment it when you change one of these in a released program.
const Rules = 2
