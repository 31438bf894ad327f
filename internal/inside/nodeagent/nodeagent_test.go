package nodeagent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

const token = "0123456789abcdef0123"

// id is a container's ID, with a letter repeated.
func id(letter string) string { return strings.Repeat(letter, 64) }

func write(t *testing.T, root, group string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(group), name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

// version1 is a node with version 1 and groups made by the kubelet.
func version1(t *testing.T) string {
	root := t.TempDir()
	for group, ns := range map[string]int{"": 9000, "system.slice": 1000, "cluster": 7000, "cluster/system": 500, "cluster/kubepods": 6000,
		"cluster/kubepods/burstable/podx/" + id("a"): 1234, "cluster/kubepods/pody/" + id("b"): 77} {
		write(t, root, "cpuacct/"+group, map[string]string{"cpuacct.usage": fmt.Sprintln(ns)})
		write(t, root, "cpu/"+group, map[string]string{"cpu.stat": "nr_periods 5\nnr_throttled 2\nthrottled_time 42\n"})
		write(t, root, "memory/"+group, map[string]string{"memory.usage_in_bytes": "5000\n", "memory.max_usage_in_bytes": "6000\n",
			"memory.stat": "inactive_file 1\ntotal_inactive_file 1000\n"})
	}
	return root
}

// version2 is the same node with version 2 and groups made by systemd.
func version2(t *testing.T) string {
	root := t.TempDir()
	write(t, root, "", map[string]string{"cgroup.controllers": "cpu memory\n"})
	for group, us := range map[string]int{"": 9, "system.slice": 1, "kubepods.slice": 6,
		"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podx.slice/cri-containerd-" + id("a") + ".scope": 2,
		"kubepods.slice/kubepods-pody.slice/crio-" + id("b") + ".scope":                                              1,
		"kubepods.slice/kubepods-pody.slice/crio-conmon-" + id("b") + ".scope":                                       4} {
		write(t, root, group, map[string]string{"cpu.stat": fmt.Sprintf("usage_usec %d\nuser_usec 1\nthrottled_usec 3\n", us),
			"memory.current": "5000\n", "memory.peak": "6000\n", "memory.stat": "anon 1\ninactive_file 1000\n"})
	}
	return root
}

func open(t *testing.T, root string) *groups {
	t.Helper()
	return must.Get(openGroups(root))(t)
}

// Containers are found and read in both versions, with groups made by the kubelet or by systemd.
func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		root                     string
		a, b, throttled          int64
		cpu, pods, daemons, rest int64
	}{
		"version 1": {version1(t), 1234, 77, 42, 9000, 6000, 1500, 1500},
		"version 2": {version2(t), 2000, 1000, 3000, 9000, 6000, 1000, 2000},
	} {
		g := open(t, test.root)
		if _, err := g.node(); err == nil {
			t.Errorf("%s: pods before a container was found", name)
		}
		if r := g.read(Query{}); r.Inotify <= 0 {
			t.Errorf("%s: no limit of inotify instances before a container was found", name)
		}
		r := g.read(Query{IDs: []string{id("a"), id("b"), id("c"), "../../etc"}, Memory: true})
		a, b := r.Containers[id("a")], r.Containers[id("b")]
		if a.Throttled == nil {
			t.Errorf("%s: %+v, %+v", name, a, b)
		} else if d := difftest.Of("a.CPU", a.CPU, test.a, "b.CPU", b.CPU, test.b, "a.Memory", a.Memory, 4000, "a.Peak", a.Peak, 6000, "*a.Throttled", *a.Throttled, test.throttled); d != "" {
			t.Errorf("%s: %s: %+v, %+v", d, name, a, b)
		}
		if len(r.Containers) != 2 || len(r.Missing) != 2 || r.Missing["../../etc"] != errBadID.Error() || !strings.Contains(r.Missing[id("c")], "no control group") {
			t.Errorf("%s: %+v, missing %v", name, r.Containers, r.Missing)
		}
		if n := r.Node; n == nil {
			t.Errorf("%s: node %+v, %s", name, n, r.NodeErr)
		} else if d := difftest.Of("n.CPU", n.CPU, test.cpu, "n.Pods", n.Pods, test.pods, "n.Daemons", n.Daemons, test.daemons, "n.Kernel()", n.Kernel(), test.rest); d != "" {
			t.Errorf("%s: %s: node %+v, %s", d, name, n, r.NodeErr)
		}
		if r := g.read(Query{IDs: []string{id("a")}}); r.Containers[id("a")].Memory != 0 {
			t.Errorf("%s: memory was not requested: %+v", name, r)
		}
	}
	if _, err := openGroups(t.TempDir()); err == nil {
		t.Error("a directory without control groups")
	}
}

// A container that is restarted has a new group. CPU of the groups beside the pods never decreases, also when one of
// them is removed.
func TestGroupsThatEnd(t *testing.T) {
	root := version1(t)
	g := open(t, root)
	before := g.read(Query{IDs: []string{id("a")}}).Node
	for _, gone := range []string{"cluster/kubepods/burstable/podx/" + id("a"), "system.slice"} {
		must.OK(t, os.RemoveAll(filepath.Join(root, "cpuacct", filepath.FromSlash(gone))))
	}
	write(t, root, "cpuacct/cluster/kubepods/burstable/podx/"+id("d"), map[string]string{"cpuacct.usage": "5\n"})
	after := g.read(Query{IDs: []string{id("a"), id("d")}})
	if after.Missing[id("a")] == "" || after.Containers[id("d")].CPU != 5 {
		t.Errorf("%+v", after)
	}
	if after.Node == nil || after.Node.Daemons < before.Daemons {
		t.Errorf("daemons: %+v, before %+v", after.Node, before)
	}
}

// A link in the tree is not followed.
func TestLinksAreNotFollowed(t *testing.T) {
	root, other := version1(t), t.TempDir()
	write(t, other, "pod/"+id("e"), map[string]string{"cpuacct.usage": "5\n"})
	must.OK(t, os.Symlink(filepath.Join(other, "pod"), filepath.Join(root, "cpuacct", "cluster", "kubepods", "podlink")))
	if r := open(t, root).read(Query{IDs: []string{id("e")}}); len(r.Containers) > 0 {
		t.Errorf("%+v", r)
	}
}

// served is a client of a server on a real socket.
func served(t *testing.T, root, with string) *Client {
	t.Helper()
	s := must.Get(NewServer(token, root))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() { stop(); <-done })
	var d net.Dialer
	c := NewClient(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", l.Addr().String())
	}, with)
	t.Cleanup(c.Close)
	return c
}

// A plan is read at its instants, by the agent alone.
func TestFollow(t *testing.T) {
	root := version1(t)
	c := served(t, root, token)
	if ahead, unsure, err := c.Compare(t.Context()); err != nil || ahead.Abs() > unsure {
		t.Fatalf("ahead %v ± %v, %v", ahead, unsure, err)
	}
	begin := time.Now().Add(100 * time.Millisecond)
	p := Plan{ID: "p", IDs: []string{id("a"), id("c"), id("b")}}
	for i := range 5 {
		p.At = append(p.At, begin.Add(time.Duration(i)*20*time.Millisecond).UnixNano())
	}
	for range 2 { // the second one changes nothing
		must.OK(t, c.Follow(t.Context(), p))
	}
	var got []Instant
	for done := false; !done; {
		progress := must.Get(c.Followed(t.Context(), "p", len(got)))(t)
		got, done = append(got, progress.Instants...), progress.Done
	}
	if len(got) != len(p.At) {
		t.Fatalf("%d instants: %+v", len(got), got)
	}
	for i, one := range got {
		if d := difftest.Of("one.At < p.At[i]", one.At < p.At[i], false, "one.Took < 0", one.Took < 0, false, "fmt.Sprint(one.CPU)", fmt.Sprint(one.CPU), "[1234 -1 77]", "fmt.Sprint(one.Node)", fmt.Sprint(one.Node), "[9000 6000 1500]"); d != "" {
			t.Errorf("%s: instant %d, due %d: %+v", d, i, p.At[i], one)
		}
	}
	if _, err := c.Followed(t.Context(), "other", 0); err == nil {
		t.Error("a plan that does not exist")
	}
	for name, bad := range map[string]Plan{
		"past":       {ID: "q", IDs: p.IDs, At: []int64{1}},
		"descending": {ID: "q", IDs: p.IDs, At: []int64{begin.Add(time.Hour).UnixNano(), begin.UnixNano()}},
		"far":        {ID: "q", IDs: p.IDs, At: []int64{begin.Add(3 * time.Hour).UnixNano()}},
		"no ID":      {IDs: p.IDs, At: p.At},
		"none":       {ID: "q", At: p.At},
		"too large":  {ID: "q", IDs: make([]string, maxContainers), At: make([]int64, MaxInstants)},
	} {
		if err := c.Follow(t.Context(), bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Without the token nothing is read, and requests are bounded.
func TestRefusals(t *testing.T) {
	root := version1(t)
	must.Fail(t, must.Err(served(t, root, "another-token-0123456").Read(t.Context(), Query{IDs: []string{id("a")}})), "token", "a wrong token")
	if _, err := served(t, root, token).Read(t.Context(), Query{IDs: make([]string, maxContainers+1)}); err == nil {
		t.Error("too many containers")
	}
}

// FuzzServer: without the token nothing is answered but a refusal, and no request makes the server fail.
func FuzzServer(f *testing.F) {
	root := f.TempDir()
	must.OK(f, os.MkdirAll(filepath.Join(root, "cpuacct"), 0o755))
	must.OK(f, os.WriteFile(filepath.Join(root, "cpuacct", "cpuacct.usage"), []byte("1\n"), 0o600))
	plan := must.Get(json.Marshal(Plan{ID: "x", IDs: []string{id("a")}, At: []int64{1 << 62}}))(f)
	f.Add("GET", "clock", "Bearer "+token, []byte(nil))
	f.Add("POST", "read", "Bearer "+token, []byte(`{"ids":["../..","a"],"memory":true}`))
	f.Add("POST", "read", "Bearer "+token, []byte(`{"ids":null}{}`))
	f.Add("POST", "follow", "Bearer "+token, plan)
	f.Add("GET", "followed?id=x&from=-1", "bearer "+token, []byte(nil))
	f.Add("POST", "read", "Basic "+token, []byte(`{}`))
	f.Fuzz(func(t *testing.T, method, target, authorization string, body []byte) {
		s := must.Get(NewServer(token, root))(t)
		r, err := http.NewRequest(method, "http://agent/"+strings.TrimPrefix(target, "/"), bytes.NewReader(body))
		if err != nil {
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s.ctx = ctx // ends a plan with the case
		r.Header = http.Header{"Authorization": {authorization}}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		permitted := strings.TrimSpace(strings.TrimPrefix(strings.ToLower(authorization), "bearer ")) == token
		if !permitted && w.Code != http.StatusUnauthorized {
			t.Errorf("%s %s with %q: status %d", method, target, authorization, w.Code)
		}
	})
}
