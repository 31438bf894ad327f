package meter

import (
	"time"

	"github.com/tare-mesh/tare/internal/result"
)

// AddTotal adds the sum of the nodes, if there are as many as wanted. Its time is the mean of theirs, so that a
// difference over a difference is the rate of all nodes.
func (l *Look) AddTotal(wanted int) {
	if len(l.Nodes) == 0 || len(l.Nodes) != wanted {
		return
	}
	first := l.Nodes[0].Reading.At
	var offset time.Duration
	l.Node = &result.NodeReading{}
	for _, n := range l.Nodes {
		l.Node.Busy += n.Reading.Busy
		l.Node.Memory += n.Reading.Memory
		offset += n.Reading.At.Sub(first) / time.Duration(len(l.Nodes))
	}
	l.Node.At = first.Add(offset)
}
