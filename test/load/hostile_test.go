package load

import (
	"strings"
	"testing"
	"time"
)

// Bounds of every run.
const (
	measure   = 300 * time.Millisecond
	timeout   = 300 * time.Millisecond
	drain     = time.Second      // the least of tare load
	overtime  = 10 * time.Second // of a busy machine
	maxMemory = 150 << 10        // KiB
)

// TestHostileServers checks time and memory of the real program against every script.
func TestHostileServers(t *testing.T) {
	tare, config := build(t), selfSigned(t)
	for _, s := range scripts {
		for _, rate := range []string{"max", "200"} {
			t.Run(s.name+"/"+rate, func(t *testing.T) {
				t.Parallel()
				scheme := "http://"
				if strings.Contains(s.args, "-k") {
					scheme = "https://"
				}
				path := "/"
				if strings.Contains(s.args, grpc) {
					path = "/a.B/C"
				}
				args := append([]string{scheme + s.start(t, config) + path, "--rate", rate, "-c", "16", "--warmup", "0s", "-d", measure.String(), "-t", timeout.String()}, strings.Fields(s.args)...)
				limit := timeout + measure + drain + overtime // connections may take their timeout, too
				o := run(t, tare, 10*limit, args...)
				t.Logf("%v, %d MiB, CPU %v: %v %v", o.took.Round(time.Millisecond), o.memory>>10, o.cpu, o.report.Classes, o.report.Errors)
				if o.took > limit {
					t.Errorf("took %v, limit %v", o.took, limit)
				}
				if o.memory > maxMemory {
					t.Errorf("%d MiB, limit %d", o.memory>>10, maxMemory>>10)
				}
				if o.report.Intended != o.report.Requests {
					t.Errorf("%d requests due, %d ended", o.report.Intended, o.report.Requests)
				}
			})
		}
	}
}
