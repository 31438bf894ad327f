package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/inside/control"
	"github.com/tare-mesh/tare/test/must"
)

const token = "0123456789abcdef"

// plane is a control plane that runs, and the directory that it writes to.
type plane struct{ url, dir string }

func start(t *testing.T, delay time.Duration) plane {
	return startWith(t, control.Options{Delay: delay})
}

func startWith(t *testing.T, o control.Options) plane {
	p := plane{dir: t.TempDir()}
	served := must.Get(control.New(token, p.dir, o))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	p.url = "http://" + l.Addr().String()
	go func() { _ = served.Serve(t.Context(), l) }()
	return p
}

// put sends a request and returns its status.
func (p plane) put(t *testing.T, path, body string) int {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPut, p.url+path, strings.NewReader(body)))(t)
	r.Header.Set("Authorization", "Bearer "+token)
	resp := must.Get(http.DefaultClient.Do(r))(t)
	resp.Body.Close()
	return resp.StatusCode
}

func (p plane) read(t *testing.T, file string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(p.dir, file)))(t)
	if !json.Valid(text) {
		t.Fatalf("%s is not JSON: %s", file, text)
	}
	return string(text)
}

func TestChangesReachTheFilesInOrder(t *testing.T) {
	p := start(t, 5*time.Millisecond)
	if got := p.put(t, "/services", `{"echo": [{"ip": "127.0.0.2", "port": 1}, {"ip": "127.0.0.3", "port": 2}]}`); got != http.StatusOK {
		t.Fatalf("register: status %d", got)
	}
	must.Contain(t, p.read(t, "echo-routes.json"), `"0 %UPSTREAM_REMOTE_ADDRESS%"`)
	for version := range 20 {
		if got := p.put(t, "/services/echo/version", strconv.Itoa(version+1)); got != http.StatusOK {
			t.Fatalf("version %d: status %d", version+1, got)
		}
	}
	if got := p.put(t, "/services/echo/endpoints", `[{"ip": "127.0.0.3", "port": 2}]`); got != http.StatusOK {
		t.Fatalf("endpoints: status %d", got)
	}
	must.OK(t, wait.Within(t.Context(), time.Minute, time.Millisecond, func(context.Context) error {
		if text := p.read(t, "echo-endpoints.json"); strings.Contains(text, "127.0.0.2") {
			return errors.New("the removed endpoint is still in " + text)
		}
		return nil
	}))
	must.Contain(t, p.read(t, "echo-routes.json"), `"20 %UPSTREAM_REMOTE_ADDRESS%"`)
	must.Contain(t, p.read(t, "echo-endpoints.json"), `"version_info":"2"`)
}

func TestRegisteringAgainChangesNothing(t *testing.T) {
	p := start(t, 0)
	p.put(t, "/services", `{"echo": [{"ip": "127.0.0.2", "port": 1}]}`)
	before := p.read(t, "echo-endpoints.json")
	if got := p.put(t, "/services", `{"echo": [], "users": []}`); got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	if after := p.read(t, "echo-endpoints.json"); after != before {
		t.Errorf("got %s, want %s", after, before)
	}
}

func TestRefusals(t *testing.T) {
	p := start(t, 0)
	p.put(t, "/services", `{"echo": []}`)
	for name, c := range map[string]struct {
		path, body string
		status     int
	}{
		"a path as name":     {"/services", `{"../echo": []}`, http.StatusBadRequest},
		"an unknown service": {"/services/users/version", `1`, http.StatusNotFound},
		"a text as version":  {"/services/echo/version", `"1"`, http.StatusBadRequest},
		"an unknown field":   {"/services/echo/endpoints", `[{"host": "a"}]`, http.StatusBadRequest},
		"a number as policy": {"/services/echo/policy", `1`, http.StatusBadRequest},
		"a path as inbound":  {"/inbound", `"../echo"`, http.StatusBadRequest},
		"a path as pod":      {"/certificates/..", `{"certificate": "/c", "key": "/k"}`, http.StatusNotFound},
	} {
		if got := p.put(t, c.path, c.body); got != c.status {
			t.Errorf("%s: status %d, want %d", name, got, c.status)
		}
	}
	files := must.Get(os.ReadDir(p.dir))(t)
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	if want := []string{"background.json", "echo-endpoints.json", "echo-routes.json", "echo-state.json"}; !slices.Equal(names, want) {
		t.Errorf("files: got %v, want %v", names, want)
	}
}

// The instants of changes are counted, in order: a change is sent its delay after it was received, and background changes are not listed.
func TestMoments(t *testing.T) {
	const delay = 50 * time.Millisecond
	p := start(t, delay)
	p.put(t, "/services", `{"echo": []}`)
	p.put(t, "/background", "1")
	before := time.Now()
	for _, c := range [][2]string{{"/services/echo/version", "1"}, {"/background/change", "1"}, {"/services/echo/policy", "true"}, {"/services/echo/endpoints", "[]"}} {
		if got := p.put(t, c[0], c[1]); got != http.StatusOK {
			t.Fatalf("%s: status %d", c[0], got)
		}
	}
	var all []mesh.ControlMoment
	must.OK(t, wait.Within(t.Context(), time.Minute, time.Millisecond, func(ctx context.Context) error {
		over := &http.Transport{}
		defer over.CloseIdleConnections()
		if err := httpserver.Call(ctx, over, token, http.MethodGet, p.url+"/changes", nil, 1<<20, &all); err != nil || len(all) < 3 {
			return fmt.Errorf("%d changes, %w", len(all), err)
		}
		return nil
	}))
	for i, m := range all {
		if took := time.Duration(m.SentNS - m.ReceivedNS); took < delay || m.ReceivedNS < before.UnixNano() || i > 0 && m.ReceivedNS < all[i-1].ReceivedNS {
			t.Errorf("change %d was received %v after the first and sent %v later", i+1, time.Unix(0, m.ReceivedNS).Sub(before), took)
		}
	}
	if len(all) != 3 {
		t.Errorf("%d changes, want 3", len(all))
	}
}

// Background services are in one file of clusters, and change in turn after the delay.
func TestBackground(t *testing.T) {
	p := start(t, 5*time.Millisecond)
	must.Contain(t, p.read(t, "background.json"), `"resources":[]`)
	for _, c := range []struct {
		path, body string
		status     int
	}{{"/background/change", "1", http.StatusBadRequest}, {"/background", "-1", http.StatusBadRequest}, {"/background", "10001", http.StatusBadRequest},
		{"/background", "2", http.StatusOK}, {"/background/change", "0", http.StatusBadRequest}} {
		if got := p.put(t, c.path, c.body); got != c.status {
			t.Errorf("%s %s: status %d, want %d", c.path, c.body, got, c.status)
		}
	}
	before := p.read(t, "background.json")
	must.Contain(t, before, `"background-1"`)
	must.Contain(t, before, `"background-2"`)
	if got := p.put(t, "/background/change", "4"); got != http.StatusOK {
		t.Fatalf("change: status %d", got)
	}
	must.OK(t, wait.Within(t.Context(), time.Minute, time.Millisecond, func(context.Context) error {
		if text := p.read(t, "background.json"); !strings.Contains(text, `"127.0.0.1"`) || !strings.Contains(text, `"198.18.0.4"`) {
			return errors.New("the second service has no other endpoint in " + text)
		}
		return nil
	}))
}

// A route that gets the whole weight has the old version beside it. With a flap the old route comes back, and goes again.
func TestWeightsAndFlaps(t *testing.T) {
	p := startWith(t, control.Options{Flap: 20 * time.Millisecond, Routes: 2})
	if got := p.put(t, "/services", `{"echo": [{"ip": "127.0.0.2", "port": 1}]}`); got != http.StatusOK {
		t.Fatalf("register: status %d", got)
	}
	if got := p.put(t, "/services/echo/weight", "1"); got != http.StatusOK {
		t.Fatalf("weight: status %d", got)
	}
	const weighted = `"weighted_clusters"`
	var seen []bool // whether the route is the new one
	err := wait.Within(t.Context(), time.Minute, time.Millisecond, func(context.Context) error {
		text := p.read(t, "echo-routes.json")
		is := strings.Contains(text, weighted) && strings.Contains(text, `"0 %UPSTREAM`) && strings.Contains(text, `"1 %UPSTREAM`) && strings.Contains(text, `"/known/2"`)
		if len(seen) == 0 || seen[len(seen)-1] != is {
			seen = append(seen, is)
		}
		if slices.Equal(seen, []bool{false, true, false, true}) || slices.Equal(seen, []bool{true, false, true}) {
			return nil
		}
		return errors.New("the old route has not come back and gone")
	})
	if err != nil {
		t.Fatalf("%v: %v", err, seen)
	}
}

// A control plane that is started again has its services, with the changes that were accepted before, and goes on.
func TestRestart(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	p := plane{dir: t.TempDir()}
	run := func(ctx context.Context) {
		served := must.Get(control.New(token, p.dir, control.Options{Delay: time.Hour}))(t)
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		p.url = "http://" + l.Addr().String()
		go func() { _ = served.Serve(ctx, l) }()
	}
	run(ctx)
	for _, c := range [][2]string{
		{"/inbound", `"echo"`}, {"/inbound", `""`}, {"/certificates/echo-0", `{"certificate": "/c", "key": "/k"}`}, {"/certificates/load", `null`},
		{"/services", `{"echo": [{"ip": "127.0.0.2", "port": 1}]}`}, {"/services/echo/version", `3`}, {"/services/echo/route", `4`}, {"/services/echo/policy", `true`},
	} {
		if got := p.put(t, c[0], c[1]); got != http.StatusOK {
			t.Fatalf("PUT %s %s: status %d", c[0], c[1], got)
		}
	}
	must.Contain(t, p.read(t, "echo-0-certificate.json"), `"filename":"/k"`)
	if text := p.read(t, "echo-inbound.json"); strings.Contains(text, "DENY") {
		t.Errorf("a policy came before its delay: %s", text)
	}
	stop()
	run(t.Context())
	routes := p.read(t, "echo-routes.json")
	if four, three := strings.Index(routes, `"4 %UPSTREAM`), strings.Index(routes, `"3 %UPSTREAM`); four < 0 || three < four {
		t.Errorf("the added route is not before the other: %s", routes)
	}
	must.Contain(t, p.read(t, "echo-inbound.json"), "DENY")
	if got := p.put(t, "/services/echo/version", `5`); got != http.StatusOK {
		t.Errorf("a change after the restart: status %d", got)
	}
}
