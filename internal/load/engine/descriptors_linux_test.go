package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// poorPrefix makes the test program a load with few file descriptors: what follows is
// its profile. It prints its report.
const poorPrefix = "poor "

// poor is how many descriptors that program has.
const poor = 40

func runPoor(what string) error {
	var p load.Profile
	if err := json.Unmarshal([]byte(strings.TrimPrefix(what, poorPrefix)), &p); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: poor, Max: poor}); err != nil {
		return err
	}
	r, err := Run(context.Background(), p, nil)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// TestOutOfFileDescriptors checks that a load without free descriptors reports the
// error, continues with its open connections, and ends.
func TestOutOfFileDescriptors(t *testing.T) {
	t.Parallel()
	self := must.Get(os.Executable())(t)
	url := rawServer(t, replying(helloResponse))
	for _, rate := range []float64{200, 0} {
		p := atRate(profile(url), rate, 2000)
		p.Connections, p.Warmup, p.Tail = 2*poor, 0, 0
		profile := must.Get(json.Marshal(p))(t)
		c := exec.CommandContext(t.Context(), self)
		c.Env = append(os.Environ(), aloneEnv+"="+poorPrefix+string(profile))
		c.WaitDelay = time.Second
		var diag bytes.Buffer
		c.Stderr = &diag
		out, err := c.Output()
		var r load.Report
		if err = firstOf(err, json.Unmarshal(out, &r)); err != nil {
			t.Fatalf("%v: %s", err, diag.Bytes())
		}
		const kind = "out of file descriptors"
		what := fmt.Sprintf("rate %v: %v, %v, connecting %v, %d connected", rate, r.Classes, r.Errors, r.ConnectErrors, r.Connected)
		if d := difftest.Of("r.Classes[load.OK] == 0", r.Classes[load.OK] == 0, false, `r.Classes[load.OK]+r.Errors[kind]+r.Errors["timeout before a connection was free"]`, r.Classes[load.OK]+r.Errors[kind]+r.Errors["timeout before a connection was free"], r.Requests, "r.ConnectErrors[kind] == 0", r.ConnectErrors[kind] == 0, false, "len(r.ConnectErrors)", len(r.ConnectErrors), 1); d != "" {
			t.Error(d, what)
		}
		if all := strings.Join(r.Warnings, " "); !strings.Contains(all, fmt.Sprintf("ran out of file descriptors (limit of a process: %d; raise it with ulimit -n", poor)) {
			t.Errorf("%s: no warning: %q", what, r.Warnings)
		}
	}

}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
