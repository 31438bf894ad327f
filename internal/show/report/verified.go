package report

import (
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
)

// VerifiedLines are sentences about proxies without counters: how their traffic was verified.
func VerifiedLines(r *answer.Report) (lines []string) {
	for _, v := range r.Verified {
		var by []string
		if v.Nonces {
			by = append(by, "random answers before the load")
		}
		if v.Arrivals {
			by = append(by, "requests that arrived one by one before the load")
		}
		if v.Sockets {
			by = append(by, "the kernel's sockets during it")
		}
		if v.Counters || len(by) == 0 {
			continue
		}
		if v.Served && v.Bytes {
			by = append(by, "the bytes that your program's sockets carried")
		}
		line := "Traffic through " + strings.Join(v.Meshes, ", ") + " is verified by " + printable.And(by) + ": no counters of the proxy."
		if !v.Served {
			line += " Your program has none either: requests that the proxy answers itself under load, or repeats, are not detected."
		}
		lines = append(lines, line)
	}
	return lines
}
