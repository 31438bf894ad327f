package load

import (
	"math"
)

// Never is later than anything.
const Never = math.MaxInt64
