package kube

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
)

func TestAdmission(t *testing.T) {
	for name, c := range map[string]struct {
		statuses, errors map[string]int64
		admitted         bool
		detail, fails    string
	}{
		"answered":                  {map[string]int64{"200": 1}, nil, true, "status 200", ""},
		"answered with an error":    {map[string]int64{"500": 1}, map[string]int64{"wrong status": 1}, true, "status 500", ""},
		"a proxy refuses":           {map[string]int64{"403": 1}, nil, false, "status 403", ""},
		"gRPC without the method":   {map[string]int64{"grpc-12": 1}, nil, true, "status grpc-12", ""},
		"permission denied":         {map[string]int64{"grpc-7": 1}, nil, false, "status grpc-7", ""},
		"an echo":                   {nil, nil, true, "answered", ""},
		"no upgrade, forbidden":     {nil, map[string]int64{"websocket refused": 1}, false, "status 403", ""},
		"no upgrade":                {nil, map[string]int64{"websocket refused": 1}, true, "websocket refused", ""},
		"reset":                     {nil, map[string]int64{"reset": 1}, false, "reset", ""},
		"closed":                    {nil, map[string]int64{"closed before an answer": 1}, false, "closed before an answer", ""},
		"closed before it was sent": {nil, map[string]int64{"idle connection closed": 1}, false, "idle connection closed", ""},
		"403 and an error":          {map[string]int64{"403": 1}, map[string]int64{"wrong status": 1}, false, "status 403", ""},
		"another protocol":          {nil, map[string]int64{"malformed response": 1}, true, "malformed response", ""},
		"no listener":               {nil, map[string]int64{"connect refused": 1}, false, "", "connect refused"},
		"no answer in time":         {nil, map[string]int64{"timeout": 1}, false, "", "timeout"},
		"nothing was sent":          {nil, nil, false, "", "did not end"},
	} {
		report := load.Report{Statuses: c.statuses, Errors: c.errors}
		switch name {
		case "an echo":
			report.Classes = map[load.Class]int64{load.OK: 1}
		case "no upgrade, forbidden":
			report.Reasons = map[string]string{"websocket refused": "status 403 Forbidden"}
		}
		admitted, detail, err := admission(report)
		if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v, %q, %v", name, admitted, detail, err)
		} else if d := difftest.Of("admitted", admitted, c.admitted, "detail", detail, c.detail); d != "" {
			t.Errorf("%s: %s: %v, %q, %v", d, name, admitted, detail, err)
		}
	}
}

// The load engine accepts the request of each protocol.
func TestOutsideClientProfile(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tare-test-1", Labels: map[string]string{labelService: "echo"}}, Status: corev1.PodStatus{PodIP: "fd00::7"}}
	for _, protocol := range app.Protocols() {
		spec := platformtest.Spec(t, noMesh(t), 1, "echo")
		spec.Treatment.Levels.Protocol = protocol
		p := newOutsideClient(&applier{trial: &trial{options: &Options{}, spec: spec, namespace: "tare-test-1"}}).profile(pod, servicePort)
		if err := p.Validate(); err != nil || p.Protocol != protocol {
			t.Errorf("%s: %+v: %v", protocol, p, err)
		}
	}
}

// Without a mesh the outside client's requests are admitted. A closed port is an error. Nothing of the client remains.
func TestOutsideClient(t *testing.T) {
	c := sharedCluster(t)
	p := newReal(t, c, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	spec := platformtest.Spec(t, noMesh(t), 1, "front", "back")
	spec.Topology.Services[1].Protocol = app.GRPC
	answers := map[string]string{"front": "status 200", "back": "status grpc-0"}
	deployed := must.Get(p.Deploy(ctx, spec))(t)
	defer func() {
		if err := deployed.Remove(ctx); err != nil {
			t.Error(err)
		}
	}()
	d := deployed.Running.(*deployment)
	s := newOutsideClient(d.applier)
	for _, pod := range d.pods.all() {
		if pod.Labels[labelService] == loadService {
			continue
		}
		if admitted, detail, err := s.Request(ctx, pod, servicePort); !admitted || detail != answers[pod.Labels[labelService]] || err != nil {
			t.Errorf("pod %s: %v, %q, %v", pod.Name, admitted, detail, err)
		}
		if _, _, err := s.Request(ctx, pod, servicePort+1); err == nil || !strings.Contains(err.Error(), "connect refused") {
			t.Errorf("a closed port of pod %s: %v", pod.Name, err)
		}
	}
	if s.worker == nil {
		t.Fatal("no pod of the application")
	}
	must.OK(t, s.Remove(ctx))
	if _, err := c.Get(ctx, cluster.Ref{Kind: cluster.KindNamespace, Name: s.namespace}); !cluster.IsNotFound(err) {
		t.Errorf("its namespace remains: %v", err)
	}
	if err := d.monitor.Err(); err != nil {
		t.Errorf("the trial lost a pod: %v", err)
	}
}
