package compare

import "errors"

// errRatiosOnly is why results of order together have no costs.
var ErrRatiosOnly = errors.New("treatments that were loaded at once have only ratios")
