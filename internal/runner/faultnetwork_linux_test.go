package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/fault"
	"github.com/tare-mesh/tare/internal/platform/local"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/runner"
)

// partitionText cuts the server off from its client for two seconds. What a busy
// machine loses besides is by far less than that, and its calls have time enough.
const partitionText = `apiVersion: tare.dev/v1alpha1
kind: Experiment
metadata: {name: partition}
application:
  entry: client
  services:
  - {name: client, calls: [{service: server, timeout: 900ms}]}
  - {name: server}
factors: {mesh: [none, envoy], rate: [50], connections: [120]}
faults:
- {kind: partition, at: 2s, for: 2s, target: {service: server}}
expect:
- success_ratio >= 0.9 before fault
- success_ratio < 0.2 from 2s to 3s
- success_ratio >= 0.9 from 8s to 10s
- lost > 50
phases: {warmup: 1s, measure: 10s, drain: 1s}
blocks: 1
# The machine that tests may be busy with other things: this is no measurement.
validity: {rateShortfall: 0.5, lateness: 1s, unattributed: 0.5}
`

// tables are the tables of nftables that this process has made.
func tables() (names []string, err error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, err
	}
	all, err := conn.ListTables()
	for _, table := range all {
		if strings.HasPrefix(table.Name, fmt.Sprintf("tare-%d-", os.Getpid())) {
			names = append(names, table.Name)
		}
	}
	return names, err
}

func nothingLeft(t *testing.T) {
	t.Helper()
	if left, err := tables(); err != nil || len(left) > 0 {
		t.Errorf("%q is left, %v", left, err)
	}
}

func needsRoot(t *testing.T) {
	t.Helper()
	if err := fault.Check([]experiment.Fault{{Kind: "partition"}}, local.New(local.Options{})); err != nil {
		if os.Getuid() == 0 && !errors.Is(err, os.ErrPermission) {
			t.Fatal(err)
		}
		t.Skipf("not root: %v", err)
	}
}

// A whole trial sees the server go, says for how long, and sees it come back.
func TestPartitionedTrial(t *testing.T) {
	needsRoot(t)
	text := partitionText
	if testing.Short() {
		text = strings.Replace(text, "[none, envoy]", "[none]", 1)
	}
	cfg, _ := real(t, text)
	if _, err := runner.Run(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	records, err := cfg.Dir.Records()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.Error != "" || len(r.Faults) != 1 || r.Faults[0].Healed.IsZero() {
			t.Fatalf("%s: %s, faults %+v", r.ID, r.Error, r.Faults)
		}
		for _, o := range r.Expectations {
			t.Logf("%s: %s: %s", r.ID, o.Expect, o.Detail)
			if !o.OK {
				t.Errorf("%s: does not hold: %s: %s", r.ID, o.Expect, o.Detail)
			}
		}
	}
	nothingLeft(t)
}

// Who is interrupted while a server is cut off leaves the network as it was.
func TestInterruptedPartition(t *testing.T) {
	needsRoot(t)
	cfg, sink := real(t, strings.Replace(strings.Replace(partitionText, "[none, envoy]", "[none]", 1), "for: 2s, ", "", 1))
	ctx, interrupt := context.WithCancelCause(t.Context())
	held := make(chan bool, 1)
	sink.on = func(e result.Event) {
		if e.Kind != result.KindFault {
			return
		}
		go func() { // the event comes before what it tells of
			found := false
			for deadline := time.Now().Add(2 * time.Second); !found && time.Now().Before(deadline); {
				<-time.After(10 * time.Millisecond)
				names, err := tables()
				found = err == nil && len(names) == 1
			}
			held <- found
			interrupt(errors.New("interrupted"))
		}()
	}
	_, err := runner.Run(ctx, cfg)
	var interrupted *runner.Interrupted
	if !errors.As(err, &interrupted) {
		t.Fatalf("ended with %v", err)
	}
	if !<-held {
		t.Error("nothing was cut off")
	}
	nothingLeft(t)
}
