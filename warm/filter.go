package warm

// Filter is a parsed query filter.
type Filter struct{}
