package local

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
)

// Two pods are impaired independently.
func TestTwoImpairments(t *testing.T) {
	w, a := newWireFor(t), newAddressesFor(t)
	one, two := newHost(t, a, "one"), newHost(t, a, "two")
	for _, h := range []host{one, two} {
		must.OK(t, w.impair(h.station, platform.Impairment{Loss: 1}))
	}
	if err := w.impair(one.station, platform.Impairment{Loss: 1}); err == nil {
		t.Error("impaired twice")
	}
	must.OK(t, w.mend("one"))
	if got := one.exchange(t, nowhere, 1, answerLimit); got.err != nil {
		t.Errorf("the one that is healed: %v", got.err)
	}
	if got := two.exchange(t, nowhere, 1, unanswered); got.err == nil {
		t.Error("the other one is healed too")
	}
}

// tables are the nftables tables of a process.
func tables(t *testing.T, pid int) (names []string) {
	t.Helper()
	conn := must.Get(nftables.New())(t)
	all := must.Get(conn.ListTables())(t)
	for _, table := range all {
		if strings.HasPrefix(table.Name, fmt.Sprintf("tare-%d-", pid)) {
			names = append(names, table.Name)
		}
	}
	return names
}

const holdEnv = "TARE_LOCAL_TEST_HOLD"

// The kernel removes the impairments of a killed process.
func TestKilledWhileImpaired(t *testing.T) {
	needsNetAdmin(t)
	if testing.Short() {
		t.Skip("starts and kills processes")
	}
	if os.Getenv(holdEnv) != "" {
		w, err := newWire()
		if err == nil {
			err = w.impair(unused, platform.Impairment{Loss: 1})
		}
		fmt.Println("held", err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWhileImpaired$")
	cmd.Env = append(os.Environ(), holdEnv+"=1")
	stdin := must.Get(cmd.StdinPipe())(t)
	defer stdin.Close()
	stdout := must.Get(cmd.StdoutPipe())(t)
	must.OK(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	during := tables(t, cmd.Process.Pid)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil || line != "held <nil>\n" || len(during) != 1 {
		t.Fatalf("%q, %v: tables %q", line, err, during)
	}
	for deadline := time.Now().Add(answerLimit); len(tables(t, cmd.Process.Pid)) > 0; {
		if time.Now().After(deadline) {
			t.Fatal("its table outlives it")
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestNothingIsLeftOfTheTable(t *testing.T) {
	needsNetAdmin(t)
	w := must.Get(newWire())(t)
	a := newAddressesFor(t)
	hit := newHost(t, a, "hit")
	must.OK(t, w.impair(hit.station, platform.Impairment{Loss: 1}))
	if got := tables(t, os.Getpid()); len(got) != 1 {
		t.Errorf("tables %q while it is in force", got)
	}
	must.OK(t, w.end())
	if got := tables(t, os.Getpid()); len(got) != 0 {
		t.Errorf("%q is left", got)
	}
	if got := hit.exchange(t, nowhere, 1, answerLimit); got.err != nil {
		t.Errorf("after the end: %v", got.err)
	}
}

// No socket that owns a table has the port ID that the kernel assigns again at once: this process's number.
// A socket with the port ID of one being closed loses its table.
func TestPortsOfTables(t *testing.T) {
	needsNetAdmin(t)
	w := must.Get(newWire())(t)
	must.OK(t, w.end())
	b := must.Get(os.ReadFile("/proc/net/netlink"))(t)
	for line := range strings.Lines(string(b)) {
		// socket, protocol, port ID, …
		if f := strings.Fields(line); f[1] == strconv.Itoa(unix.NETLINK_NETFILTER) && f[2] == strconv.Itoa(os.Getpid()) {
			return
		}
	}
	t.Errorf("port ID %d is free after the end:\n%s", os.Getpid(), b)
}

func TestRefusedImpairments(t *testing.T) {
	needsNetAdmin(t)
	if err := canImpair(platform.Impairment{Bandwidth: 2 * maxBandwidth}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("more than the kernel can count: %v", err)
	}
	for _, how := range []platform.Impairment{{Bandwidth: maxBandwidth}, {Bandwidth: 1}, {Loss: 1e-9}} {
		if err := canImpair(how); err != nil {
			t.Errorf("%+v: %v", how, err)
		}
	}
}

// A sidecar that does not bind its pod's address is an error: its packets cannot be identified.
func TestSidecarsThatCallFromElsewhere(t *testing.T) {
	realEnvoy(t)
	needsNetAdmin(t)
	m := load(t, "envoy-plaintext")
	local := *m.Local
	local.Sidecar.Config = regexp.MustCompile(`(?m)^cluster_manager:.*$`).ReplaceAllString(local.Sidecar.Config, "")
	if local.Sidecar.Config == m.Local.Sidecar.Config {
		t.Fatal("the definition binds nothing")
	}
	m.Local = &local
	d := mustDeploy(t, Options{}, m)
	verdict(t, d) // which sends requests
	err := d.network.Impair(t.Context(), "echo-0", platform.Impairment{Loss: 1})
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(hint.Of(err), "upstream_bind_config") {
		t.Errorf("got %v", err)
	}
}
