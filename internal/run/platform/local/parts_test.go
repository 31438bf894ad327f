package local

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer/effective"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
)

func topology(calls map[string]string) app.Topology {
	t := app.Topology{Name: "t", Entry: "a"}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		s := app.Service{Name: name}
		for _, c := range strings.Fields(calls[name]) {
			s.Calls = append(s.Calls, app.Call{Service: c})
		}
		t.Services = append(t.Services, s)
	}
	return t
}

func TestOrder(t *testing.T) {
	diamond := topology(map[string]string{"a": "b c b", "b": "d", "c": "d d", "d": "", "idle": "d"})
	order := must.Get(calleesFirst(diamond))(t)
	var names []string
	for _, s := range order {
		names = append(names, s.Name)
	}
	if want := []string{"d", "b", "c", "a", "idle"}; !slices.Equal(names, want) {
		t.Errorf("order %v, want %v", names, want)
	}
	n := must.Get(visits(diamond, called{times: 1}))(t)
	for name, want := range map[string]int64{"a": 1, "b": 2, "c": 1, "d": 4, "idle": 0} {
		if n[name] != (called{times: want}) {
			t.Errorf("visits of %s: %+v, want %d", name, n[name], want)
		}
	}
	if got := callers(diamond, "d"); !slices.Equal(got, []string{"b", "c", "idle"}) {
		t.Errorf("callers of d: %v", got)
	}
	if got := callers(diamond, "a"); !slices.Equal(got, []string{loadService}) {
		t.Errorf("callers of a: %v", got)
	}
	for _, bad := range []app.Topology{topology(map[string]string{"a": "b", "b": "a"}), topology(map[string]string{"a": "a"}), topology(map[string]string{"a": "x"})} {
		if _, err := calleesFirst(bad); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

func newAddressesFor(t *testing.T) *addresses {
	t.Helper()
	a := must.Get(newAddresses())(t)
	t.Cleanup(a.free)
	return a
}

// Each deployment has its own range of addresses: a network fault of one would affect another with the same.
func TestAddressesOfDeployments(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("pods share one address")
	}
	ranges := map[netip.Prefix]bool{}
	for range 20 { // not all: other processes deploy too
		a := newAddressesFor(t)
		if ranges[a.all()] || a.all().Overlaps(unused.all) {
			t.Fatalf("%s: twice", a.all())
		}
		ranges[a.all()] = true
	}
}

// A range is free after its deployment.
func TestAddressesAreFreed(t *testing.T) {
	for range 2 * (lastNet - firstNet) {
		newAddressesFor(t).free()
	}
}

func TestAddresses(t *testing.T) {
	a := newAddressesFor(t)
	seen := map[netip.Addr]bool{}
	for range 300 {
		ip, err := a.reserve()
		if err != nil || !ip.IsLoopback() || (ip != localhost && seen[ip]) {
			t.Fatalf("%v, %v", ip, err)
		}
		seen[ip] = true
	}
	if runtime.GOOS == "linux" && len(seen) != 300 {
		t.Errorf("%d addresses for 300 pods", len(seen))
	}
	a.next = 256 * lastHosts
	if ip, err := a.reserve(); err == nil {
		t.Errorf("one too many: %v", ip)
	}
	// An address that this machine does not have, as a system with one loopback address has not.
	if bindable(netip.AddrFrom4([4]byte{192, 0, 2, 1})) {
		t.Error("192.0.2.1 can be bound")
	}
}

func TestAuthority(t *testing.T) {
	a := must.Get(newAuthority())(t)
	c := must.Get(a.issue("echo"))(t)
	dir := t.TempDir()
	certPath, keyPath := filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	must.OK(t, c.Write(certPath, keyPath))
	for _, path := range []string{certPath, keyPath} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", path, info.Mode(), err)
		}
	}
	b := must.Get(os.ReadFile(certPath))(t)
	block, _ := pem.Decode(b)
	cert := must.Get(x509.ParseCertificate(block.Bytes))(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.PEM())
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
			t.Error(err)
		}
	}
	if len(cert.URIs) != 1 || cert.URIs[0].String() != "spiffe://tare.local/ns/default/sa/echo" || cert.IsCA {
		t.Errorf("identities %v, CA %v", cert.URIs, cert.IsCA)
	}
	other := must.Get(newAuthority())(t)
	roots = x509.NewCertPool()
	roots.AddCert(other.Certificate)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots}); err == nil {
		t.Error("the authority of another trial vouches for it")
	}
}

func TestRuntimeDir(t *testing.T) {
	r := must.Get(newRuntimeDir())(t)
	if info, err := os.Stat(r.path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if n := len(r.file("1000.sock")); n > 100 {
		t.Errorf("a socket's path is %d bytes long: %s", n, r.file("1000.sock"))
	}
	must.OK(t, os.WriteFile(r.file("key"), []byte("secret"), 0o600))
	if err := sweepRuntimeDirs(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(r.file("key")); err != nil {
		t.Errorf("a living run's directory is swept: %v", err)
	}
	r.lock.Close() // as when tare is killed
	if err := sweepRuntimeDirs(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(r.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a dead run's directory is left: %v", err)
	}
	if err := r.remove(); err != nil {
		t.Errorf("second remove: %v", err)
	}
}

// deployVariable makes TestDeployAndWait a tare that will be killed.
const deployVariable = "TARE_LOCAL_TEST_DEPLOY"

func TestDeployAndWait(t *testing.T) {
	name := os.Getenv(deployVariable)
	if name == "" {
		t.Skip("the other process of TestKilledTareLeavesNothing")
	}
	d := mustDeploy(t, Options{}, load(t, name))
	tasks := must.Get(d.Tasks(t.Context()))(t)
	for _, task := range tasks {
		fmt.Println("pid", task.PID)
	}
	fmt.Println("pid 0")
	<-t.Context().Done()
}

// When tare is killed with SIGKILL its processes die, and the next start removes its keys.
func TestKilledTareLeavesNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("parent-death signals are Linux's")
	}
	name := "envoy"
	if testing.Short() {
		t.Attr("short", "without Envoy")
		name = "none"
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestDeployAndWait$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), deployVariable+"="+name, agentVariable+"="+agent)
	out := must.Get(cmd.StdoutPipe())(t)
	must.OK(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var pids []int
	var output []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		output = append(output, lines.Text())
		var pid int
		if n, _ := fmt.Sscanf(lines.Text(), "pid %d", &pid); n == 0 {
			continue
		}
		if pid == 0 {
			break
		}
		if pid != cmd.Process.Pid {
			pids = append(pids, pid)
		}
	}
	if want := map[string]int{"envoy": 3, "none": 1}[name]; len(pids) != want {
		t.Fatalf("%d processes, want %d: %v", len(pids), want, output)
	}
	if n := len(leftovers(t)); n != 1 {
		t.Errorf("%d runtime directories while it runs, want 1", n)
	}
	must.OK(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool {
			proc.ReapOrphans() // this process adopts them
			return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
		})
	}
	Sweep(func(line string) { t.Error(line) })
	if left := leftovers(t); len(left) > 0 {
		t.Errorf("runtime directories are left: %v", left)
	}
}

// After the second interrupt nothing waits for a process that does not end, and nothing is left.
func TestRemoveAtOnce(t *testing.T) {
	d := mustDeploy(t, Options{}, load(t, "none"))
	tasks := must.Get(d.Tasks(t.Context()))(t)
	for _, task := range tasks {
		if task.PID != os.Getpid() {
			if err := syscall.Kill(task.PID, syscall.SIGSTOP); err != nil { // it receives no SIGTERM now
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	start := time.Now()
	if err := d.Remove(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took >= stopGrace {
		t.Errorf("it took %v and the grace of a process is %v", took, stopGrace)
	}
	if _, err := os.Stat(d.workspace.runtime.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the runtime directory: %v", err)
	}
	for _, task := range tasks {
		if task.PID != os.Getpid() && syscall.Kill(task.PID, 0) == nil {
			t.Errorf("%s is left", task.ID)
		}
	}
}

// Replicas beyond the number started at once, each with its own address.
func TestManyReplicas(t *testing.T) {
	spec := platformtest.Spec(t, load(t, "none"), 9, "front", "back")
	d := must.Get(newPlatform(t).Deploy(t.Context(), spec))(t)
	platformtest.Removed(t, d)
	if n := len(d.Entry()); n != 9 {
		t.Errorf("%d entry URLs, want 9", n)
	}
	platformtest.Verified(t, d.Verify)
}

// Deploying one trial with real sidecars, as every trial of an experiment does.
func BenchmarkDeployEnvoy(b *testing.B) {
	m := must.Get(mesh.Load("envoy"))(b)
	p := New(Options{AgentPath: agent, FetchProgram: fetchProgram})
	for b.Loop() {
		spec := platform.Spec{Mesh: m, Topology: topology(map[string]string{"a": ""}), Provenance: b.TempDir()}
		d := must.Get(p.Deploy(b.Context(), spec))(b)
		start := time.Now()
		must.OK(b, d.Remove(b.Context()))
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms-last-removal")
	}
}

// provenance/commands.sh starts the same application.
func TestCommandsPaste(t *testing.T) {
	d, spec, err := deploy(t, Options{}, load(t, "none"))
	must.OK(t, err)
	must.OK(t, d.Remove(t.Context()))
	p := must.Get(proc.Start(t.Context(), proc.Command{Path: "sh", Args: []string{filepath.Join(spec.Provenance, "commands.sh")}}))(t)
	defer func() { _ = p.Stop(t.Context(), 0) }()
	must.OK(t, awaitReady(t.Context(), "pasted", p, func(ctx context.Context) error { return answers(ctx, d.layout.pods["echo"][0].api) }))
	if c := probed(t, d); !c.OK {
		t.Error(c.Detail)
	}
}

// A dump of 10,000 clusters is kept, and the reader of results has all of it.
func TestLargeDumpIsCompressed(t *testing.T) {
	dir := t.TempDir()
	clusters := strings.Repeat(`{"cluster": {"name": "padding", "type": "STATIC", "connect_timeout": "0.25s"}},`, 20_000) + `{"cluster": {"name": "last"}}`
	text := []byte(`{"configs": [{"static_clusters": [` + clusters + `]}]}`)
	must.OK(t, platform.Provenance(dir).WriteLarge("echo-0-sidecar-config_dump.json", text, maxPlainDump))
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 || !strings.HasSuffix(files[0], "config_dump.json.gz") {
		t.Fatalf("%v, %v", files, err)
	}
	c, err := effective.Read(dir)
	if err != nil || c[effective.Place{File: "echo-0", Path: "configs[0].static_clusters[last].cluster.name"}] != "last" {
		t.Errorf("%d values, %v", len(c), err)
	}
}
