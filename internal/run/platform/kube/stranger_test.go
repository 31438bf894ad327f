package kube

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/load/loadgen"
	"github.com/tare-mesh/tare/internal/run/platform/platformtest"
)

func TestLetIn(t *testing.T) {
	for what, c := range map[string]struct {
		statuses, errors map[string]int64
		admitted         bool
		detail, fails    string
	}{
		"answered":               {map[string]int64{"200": 1}, nil, true, "status 200", ""},
		"answered with an error": {map[string]int64{"500": 1}, map[string]int64{"wrong status": 1}, true, "status 500", ""},
		"a proxy says no":        {map[string]int64{"403": 1}, nil, false, "status 403", ""},
		"reset":                  {nil, map[string]int64{"reset": 1}, false, "reset", ""},
		"closed":                 {nil, map[string]int64{"closed before an answer": 1}, false, "closed before an answer", ""},
		"403 and an error":       {map[string]int64{"403": 1}, map[string]int64{"wrong status": 1}, false, "status 403", ""},
		"another protocol":       {nil, map[string]int64{"malformed response": 1}, true, "malformed response", ""},
		"nobody listens":         {nil, map[string]int64{"connect refused": 1}, false, "", "connect refused"},
		"no answer in time":      {nil, map[string]int64{"timeout": 1}, false, "", "timeout"},
		"nothing was sent":       {nil, nil, false, "", "did not end"},
	} {
		admitted, detail, err := letIn(loadgen.Report{Statuses: c.statuses, Errors: c.errors})
		if admitted != c.admitted || detail != c.detail || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v, %q, %v", what, admitted, detail, err)
		}
	}
}

// A pod outside of the mesh is answered where there is no mesh, tells a closed port from a refusal, and leaves nothing.
func TestStranger(t *testing.T) {
	c := realCluster(t)
	p := newReal(t, c, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	deployed, err := p.Deploy(ctx, platformtest.Spec(t, none(t), 1, "echo"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := deployed.Remove(ctx); err != nil {
			t.Error(err)
		}
		nothingLeft(t, c)
	}()
	d := deployed.Running.(*deployment)
	s := d.newStranger()
	for _, pod := range d.own() {
		if pod.Labels[labelService] == loadService {
			continue
		}
		if admitted, detail, err := s.ask(ctx, pod, servicePort); !admitted || detail != "status 200" || err != nil {
			t.Errorf("pod %s: %v, %q, %v", pod.Name, admitted, detail, err)
		}
		if _, _, err := s.ask(ctx, pod, servicePort+1); err == nil || !strings.Contains(err.Error(), "connect refused") {
			t.Errorf("a closed port of pod %s: %v", pod.Name, err)
		}
	}
	if s.worker == nil {
		t.Fatal("nobody was asked")
	}
	if err := s.leave(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(ctx, cluster.Ref{Kind: cluster.KindNamespace, Name: s.namespace}); !cluster.IsNotFound(err) {
		t.Errorf("its namespace is still there: %v", err)
	}
	if err := d.Err(); err != nil {
		t.Errorf("it broke the trial: %v", err)
	}
}
