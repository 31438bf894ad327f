package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/cluster/internal/cgroup"
	"github.com/tare-mesh/tare/test/cluster/internal/image"
	"github.com/tare-mesh/tare/test/cluster/internal/parts"
	"github.com/tare-mesh/tare/test/must"
)

// A cluster's first process is this program, called again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == InsideCommand {
		fmt.Fprintln(os.Stderr, "cluster:", Inside(os.Stdin))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// options skips where the machine cannot hold a cluster; in continuous integration that is a failure.
func options(t *testing.T) Options {
	t.Helper()
	if testing.Short() {
		t.Skip("brings up a cluster")
	}
	if os.Geteuid() != 0 && os.Getenv("CI") != "true" {
		t.Skip("a cluster takes root")
	}
	source := must.Get(parts.Find("."))(t)
	return Options{Source: source, Owned: true, Log: t.Output()}
}

func TestCluster(t *testing.T) {
	o := options(t)
	l := must.Get(New(os.Getenv(RootVariable), "selftest"))(t)
	before := machine(t)
	begun := time.Now()
	up := must.Get(Up(t.Context(), l, o))(t)
	t.Logf("up in %s", time.Since(begun).Round(100*time.Millisecond))
	t.Cleanup(func() {
		if err := Down(context.Background(), l); err != nil {
			t.Error(err)
		}
	})
	for _, part := range []struct {
		name string
		test func(*testing.T, Layout)
	}{
		{"the node is ready", func(t *testing.T, l Layout) { holds(t, "the node", l.nodes()[0].isReady) }},
		{"DNS answers", dnsAnswers},
		{"the Metrics API has a reading of the node", nodeMetrics},
		{"a pod runs an image that was loaded", loadedImage},
		{"a node port can be reached from this machine", nodePort},
		{"a pod redirects by iptables and reaches a service by name", redirect},
		{"the API server can be stopped and continued", stopAPI},
		{"a second one of the name is refused or is the same", secondUp},
		{"secrets are their owner's alone", secrets},
		{"it has the CPU weight of its CPUs", weight},
		{"objects left behind are named", leftBehind},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, up) })
	}
	spaces := spacesOf(t, up)
	remainsAreSeen(t, up, spaces)
	begun = time.Now()
	must.OK(t, Down(t.Context(), l))
	t.Logf("down in %s", time.Since(begun).Round(100*time.Millisecond))
	nothingLeft(t, up, spaces)
	if after := machine(t); !slices.Equal(before, after) {
		t.Errorf("the machine before: %q\nand after: %q", before, after)
	}
}

// webs is a server on each node, reachable by the name of a service.
const webs = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "` + Toolbox + `", imagePullPolicy: Never, command: [/bin/sh, -c, "while true; do printf 'HTTP/1.0 200 OK\\r\\n\\r\\n%s\\n' $(busybox hostname) | nc -l -p 8080; done"]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`

// Pods of three nodes reach one another by address and by name, and this machine reaches each. A node that is killed is
// not ready, and nothing of it is left.
func TestNodes(t *testing.T) {
	o := options(t)
	o.Nodes = 3
	l := must.Get(New(os.Getenv(RootVariable), "selfnodes"))(t)
	before := machine(t)
	var err error
	if l, err = Up(t.Context(), l, o); errors.Is(err, ErrOneNode) && os.Getenv("CI") != "true" {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Down(context.Background(), l); err != nil {
			t.Error(err)
		}
	})
	spaces := spacesOf(t, l)
	if n := len(spaces.numbers["net"]); n != 3 {
		t.Errorf("%d network namespaces, want 3", n)
	}
	file := must.File(t, t.TempDir(), "web.yaml", webs)
	kubectl(t, l, "apply", "-f", file)
	kubectl(t, l, "rollout", "status", "daemonset/web", "--timeout=2m")
	names := strings.Fields(kubectl(t, l, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].metadata.name}"))
	addresses := strings.Fields(kubectl(t, l, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}"))
	if len(names) != 3 || len(addresses) != 3 {
		t.Fatalf("%v, %v", names, addresses)
	}
	for _, from := range names {
		for i, to := range append(slices.Clone(addresses), "web.default.svc.cluster.local") {
			port := map[bool]string{true: "8080", false: "80"}[i < 3]
			holds(t, "an answer of "+to+" to "+from, func(ctx context.Context) error { // a server without a queue answers one at a time
				out, err := l.Kubectl(ctx, "exec", from, "--", "/bin/sh", "-c", `printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 5 `+to+" "+port)
				if want := "\nweb-"; err == nil && !strings.Contains(out, want) || i < 3 && err == nil && !strings.Contains(out, names[i]) {
					err = fmt.Errorf("answered %q", out)
				}
				return err
			})
		}
	}
	port := kubectl(t, l, "get", "service", "web", "--output=jsonpath={.spec.ports[0].nodePort}")
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, n := range l.nodes() {
		holds(t, "an answer at the node port of "+n.name(), func(context.Context) error {
			response, err := client.Get("http://" + net.JoinHostPort(n.address().String(), port) + "/")
			if err != nil {
				return err
			}
			return response.Body.Close()
		})
	}
	if err := l.Kill(Node); err == nil {
		t.Error("the node of the control plane was killed")
	}
	lost := l.nodes()[2]
	must.OK(t, l.Kill(lost.name()))
	holds(t, "the killed node to be lost", func(ctx context.Context) error {
		if err := lost.isReady(ctx); err == nil || !strings.Contains(err.Error(), "Kubelet stopped posting node status") {
			return fmt.Errorf("its state: %w", err)
		}
		return nil
	})
	serve(t, l) // an image reaches the nodes that are left
	remainsAreSeen(t, l, spaces)
	must.OK(t, Down(t.Context(), l))
	nothingLeft(t, l, spaces)
	if after := machine(t); !slices.Equal(before, after) {
		t.Errorf("the machine before: %q\nand after: %q", before, after)
	}
}

// What a program that was killed while it brought a cluster up has begun, down ends.
func TestDownAfterUpWasKilled(t *testing.T) {
	options(t)
	l := must.Get(New(os.Getenv(RootVariable), "killed"))(t)
	program := filepath.Join(t.TempDir(), "tare-cluster")
	if out, err := exec.Command("go", "build", "-o", program, "./cmd/tare-cluster").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for what, running := range map[string]func(Layout) (int, error){
		"the API server is started": func(l Layout) (int, error) { pids, err := l.nodes()[0].pids("kube-apiserver"); return len(pids), err },
		"images are imported":       func(l Layout) (int, error) { lines, err := importing(l); return len(lines), err },
	} {
		t.Run(what, func(t *testing.T) { downAfterKill(t, l, program, what, running) })
	}
}

// downAfterKill kills the program that brings a cluster up as soon as something runs there.
func downAfterKill(t *testing.T, l Layout, program, what string, running func(Layout) (int, error)) {
	t.Cleanup(func() {
		if err := Down(context.Background(), l); err != nil {
			t.Error(err)
		}
	})
	bring := exec.Command(program, "--root", l.Root, "--name", l.Name, "up")
	bring.Stderr = t.Output()
	must.OK(t, bring.Start())
	var begun Layout
	holds(t, what, func(context.Context) error {
		there, _, err := l.Load()
		if err != nil {
			return err
		}
		n, err := running(there)
		if err == nil && n == 0 {
			err = errors.New("not yet")
		}
		begun = there
		return err
	})
	must.OK(t, bring.Process.Kill())
	_ = bring.Wait() // killed
	if !begun.running() {
		t.Fatal("the cluster's first process ended with the program that started it: nothing is tried here")
	}
	spaces := spacesOf(t, begun)
	must.OK(t, Down(t.Context(), l))
	nothingLeft(t, begun, spaces)
	// What the killed program had started on the machine itself ends without it, and does not ask for ever.
	holds(t, "no import into a removed cluster", func(context.Context) error {
		lines, err := importing(l)
		if err == nil && len(lines) > 0 {
			err = fmt.Errorf("running: %q", lines)
		}
		return err
	})
}

// importing are the command lines of processes that import images into the cluster.
func importing(l Layout) (lines []string, err error) {
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, process := range processes {
		line, _ := os.ReadFile(process) // of one that has ended there is none
		if words := strings.Split(string(line), "\x00"); slices.Contains(words, l.Containerd()) && slices.Contains(words, "import") {
			lines = append(lines, strings.Join(words, " "))
		}
	}
	return lines, err
}

func holds(t *testing.T, what string, c condition) {
	t.Helper()
	must.OK(t, await(t.Context(), startLimit, what, c))
}

func kubectl(t *testing.T, l Layout, arguments ...string) string {
	t.Helper()
	out := must.Get(l.Kubectl(t.Context(), arguments...))(t)
	return out
}

func dnsAnswers(t *testing.T, l Layout) {
	server := net.JoinHostPort(l.Network.DNS.String(), "53")
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server)
	}}
	addresses, err := resolver.LookupHost(t.Context(), "kubernetes.default.svc.cluster.local.")
	if err != nil || !slices.Equal(addresses, []string{l.Network.API.String()}) {
		t.Errorf("got %v, %v; want %s", addresses, err, l.Network.API)
	}
}

func nodeMetrics(t *testing.T, l Layout) {
	body, err := api{l}.get(t.Context(), "/apis/metrics.k8s.io/v1beta1/nodes/"+Node)
	if err != nil {
		t.Fatal(err)
	}
	var reading struct{ Usage struct{ CPU, Memory string } }
	must.OK(t, json.Unmarshal(body, &reading))
	if reading.Usage.CPU == "" || reading.Usage.CPU == "0" || reading.Usage.Memory == "" {
		t.Errorf("no reading: %s", body)
	}
}

// serve packs busybox as a web server that answers with the name of the pod.
func serve(t *testing.T, l Layout) string {
	t.Helper()
	busybox := must.Get(exec.LookPath("busybox"))(t)
	archive, reference := filepath.Join(t.TempDir(), "web.tar"), image.Reference("web", "1")
	if err := image.Write(archive, image.Image{Reference: reference, Files: []image.File{
		{Path: "/bin/busybox", From: busybox}, {Path: "/bin/sh", Link: "busybox"},
	}}); err != nil {
		t.Fatal(err)
	}
	names, err := l.LoadImage(t.Context(), archive)
	if err != nil || !slices.Equal(names, []string{reference}) {
		t.Fatalf("loaded %v, %v; want %s", names, err, reference)
	}
	return reference
}

func loadedImage(t *testing.T, l Layout) {
	kubectl(t, l, "run", "web", "--image", serve(t, l), "--image-pull-policy=Never", "--labels=app=web", "--port=8080",
		"--command", "--", "/bin/sh", "-c", "hostname > /tmp/index.html; echo serving; exec busybox httpd -f -p 8080 -h /tmp")
	kubectl(t, l, "wait", "--for=condition=Ready", "pod/web", "--timeout=2m")
	if logs := kubectl(t, l, "logs", "web"); !strings.Contains(logs, "serving") {
		t.Errorf("logs: %q", logs)
	}
}

func nodePort(t *testing.T, l Layout) {
	kubectl(t, l, "expose", "pod", "web", "--type=NodePort", "--port=80", "--target-port=8080")
	port := kubectl(t, l, "get", "service", "web", "--output=jsonpath={.spec.ports[0].nodePort}")
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	holds(t, "an answer at the node port", func(context.Context) error {
		response, err := client.Get("http://" + net.JoinHostPort(l.Network.Node.String(), port) + "/")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil && strings.TrimSpace(string(body)) != "web" {
			err = fmt.Errorf("answered %s %q", response.Status, body)
		}
		return err
	})
}

// redirect does the work of a mesh's init container. The port called has no listener: the rule maps it to the service's.
func redirect(t *testing.T, l Layout) {
	const script = `iptables -t nat -A OUTPUT -p tcp --dport 81 -j DNAT --to-destination :80 && ` +
		`printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 10 web.default.svc.cluster.local 81`
	kubectl(t, l, "run", "client", "--image", Toolbox, "--image-pull-policy=Never", "--restart=Never",
		`--overrides={"spec":{"containers":[{"name":"client","image":"`+Toolbox+`","imagePullPolicy":"Never","command":["/bin/sh","-c","`+script+`"],`+
			`"securityContext":{"capabilities":{"add":["NET_ADMIN"]}}}]}}`)
	holds(t, "the client to end", func(ctx context.Context) error {
		phase, err := l.Kubectl(ctx, "get", "pod", "client", "--output=jsonpath={.status.phase}")
		if err == nil && phase != "Succeeded" && phase != "Failed" {
			err = fmt.Errorf("phase %s", phase)
		}
		return err
	})
	if logs := kubectl(t, l, "logs", "client"); !strings.HasSuffix(strings.TrimSpace(logs), "\nweb") {
		t.Errorf("got %q through the service", logs)
	}
}

func stopAPI(t *testing.T, l Layout) {
	must.OK(t, l.Signal("", "kube-apiserver", "stop"))
	var err error
	for end := time.Now().Add(5 * time.Second); err == nil && time.Now().Before(end); { // its threads stop one by one
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err = (api{l}).apiReady()(ctx)
		cancel()
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stopped API server answered: %v", err)
	}
	must.OK(t, l.Signal("", "kube-apiserver", "cont"))
	holds(t, "the API server", api{l}.apiReady())
}

func secondUp(t *testing.T, l Layout) {
	named := must.Get(New(l.Root, l.Name))(t)
	unlock := must.Get(named.lock())(t)
	_, err := Up(t.Context(), named, Options{Log: t.Output()})
	unlock()
	if err == nil || !strings.Contains(err.Error(), "by another process") {
		t.Errorf("brought up while another was at it: %v", err)
	}
	same, err := Up(t.Context(), named, Options{Log: t.Output()})
	if err != nil || same.Init != l.Init {
		t.Errorf("brought up again: process %d, %v; want the same, %d", same.Init, err, l.Init)
	}
}

func secrets(t *testing.T, l Layout) {
	for _, path := range []string{l.Dir(), l.pki(), l.pki() + "/ca.key", l.Kubeconfig(), l.kubeconfig("kubelet")} {
		info := must.Get(os.Stat(path))(t)
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %s", path, info.Mode())
		}
	}
}

// machine lists what the cluster's programs would make elsewhere on the machine if they could.
func machine(t *testing.T) []string {
	t.Helper()
	var there []string
	for _, path := range []string{"/etc/cni", "/opt/cni", "/run/containerd", "/run/netns", "/run/xtables.lock", "/run/flannel",
		"/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/containers", "/var/log/pods"} {
		entries, err := os.ReadDir(path)
		if _, missing := os.Stat(path); missing == nil {
			there = append(there, fmt.Sprint(path, len(entries), err))
		}
	}
	for _, name := range append(slices.Collect(maps.Keys(sysctls)), strings.ReplaceAll(inotifyLimit, ".", "/")) {
		value, err := os.ReadFile("/proc/sys/" + name)
		there = append(there, fmt.Sprint(name, string(value), err))
	}
	slices.Sort(there)
	return there
}

// spacesOf are the kernel's namespaces of a cluster that is up.
func spacesOf(t *testing.T, l Layout) Spaces {
	t.Helper()
	spaces := must.Get(ReadSpaces(l))(t)
	return spaces
}

func nothingLeft(t *testing.T, l Layout, spaces Spaces) {
	t.Helper()
	if err := Remains(t.Context(), l, spaces); err != nil {
		t.Error(err)
	}
}

// remainsAreSeen checks that Remains finds everything of a cluster that is up.
func remainsAreSeen(t *testing.T, l Layout, spaces Spaces) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err := Remains(ctx, l, spaces)
	for _, want := range []string{"is in the cluster's", "interface " + l.Interface(), "route " + l.nodes()[0].pods().String(), "control groups remain", l.Dir() + " remains"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("of a cluster that is up: %v, want %q", err, want)
		}
	}
}

// leftBehind checks that new objects are named and earlier ones are not.
func leftBehind(t *testing.T, l Layout) {
	before, err := Objects(t.Context(), l)
	if err != nil || !before["Namespace kube-system"] || !before["Deployment kube-system/coredns"] {
		t.Fatalf("%v, %v", before, err)
	}
	if err := Left(t.Context(), l, before); err != nil {
		t.Error(err)
	}
	kubectl(t, l, "create", "configmap", "forgotten")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := Left(ctx, l, before); err == nil || !strings.Contains(err.Error(), "left: ConfigMap default/forgotten") {
		t.Errorf("a config map was left: %v", err)
	}
	kubectl(t, l, "delete", "configmap", "forgotten")
	if err := Left(t.Context(), l, before); err != nil {
		t.Error(err)
	}
}

// weight compares the cluster with the threads of other programs: by default it has 1024 shares for each CPU.
func weight(t *testing.T, l Layout) {
	hierarchies := must.Get(cgroup.Hierarchies())(t)
	for _, h := range hierarchies {
		cpus := runtime.NumCPU()
		for file, want := range map[string]int{"cpu.shares": 1024 * cpus, "cpu.weight": min(100*cpus, 10000)} { // the kernel's bound
			text, err := os.ReadFile(filepath.Join(h.Mount, l.cgroupName(), file))
			if err != nil {
				continue // of another version or controller
			}
			if got := strings.TrimSpace(string(text)); got != strconv.Itoa(want) {
				t.Errorf("%s is %s, want %d", file, got, want)
			}
			return
		}
	}
	t.Error("no control group of the cluster has a CPU weight")
}
