package meter

import (
	"time"

	"github.com/tare-mesh/tare/internal/result"
)

// Total adds up the nodes. Its time is the mean of theirs, so that a
// difference over a difference is the rate of all nodes.
func Total(nodes []result.NodeReading) *result.NodeReading {
	var sum result.NodeReading
	var offset time.Duration
	for _, n := range nodes {
		sum.Busy += n.Busy
		sum.Memory += n.Memory
		offset += n.At.Sub(nodes[0].At) / time.Duration(len(nodes))
	}
	sum.At = nodes[0].At.Add(offset)
	return &sum
}
