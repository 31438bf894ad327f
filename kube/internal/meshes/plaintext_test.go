package meshes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// ambient is a mesh that refuses plaintext and admits traffic from nodes.
func ambient(t *testing.T) *instance {
	t.Helper()
	d := must.Get(mesh.Load("istio-ambient-l4"))(t)
	m := must.Get(New(nil, d, mesh.Settings{}, Options{}))(t)
	return m.instance
}

func podWith(name string, containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}, Spec: corev1.PodSpec{Containers: containers}}
}

func container(name string, ports ...corev1.ContainerPort) corev1.Container {
	return corev1.Container{Name: name, Ports: ports}
}

func noServices(context.Context, string) ([]corev1.Service, error) { return nil, nil }

// Each pod gets three requests, under any container name. The load gets none.
func TestPlaintextFromOutsideClient(t *testing.T) {
	groups := podGroups{inMesh: []*corev1.Pod{podWith("load", container("load", corev1.ContainerPort{ContainerPort: 9})),
		podWith("shop", container("app", corev1.ContainerPort{ContainerPort: 8080})), podWith("till", container("web", corev1.ContainerPort{ContainerPort: 8081}))}}
	for name, c := range map[string]struct {
		admits bool
		err    error
		ok     bool
		want   string
		ports  []int32
	}{
		"refused":   {false, nil, true, "6 of 6 requests without TLS were refused", []int32{8080, 8080, 8080, 8081, 8081, 8081}},
		"admitted":  {true, nil, false, "port 8080 of pod shop answered: 200", []int32{8080}},
		"no answer": {false, errors.New("timeout"), false, "no answer from port 8080 of pod shop: timeout", []int32{8080}},
	} {
		var ports []int32
		k := newPlaintextCheck(ambient(t), Target{LoadInside: true, IsLoad: func(p *corev1.Pod) bool { return p.Name == "load" },
			Plaintext: func(_ context.Context, _ *corev1.Pod, port int32) (bool, string, error) {
				ports = append(ports, port)
				return c.admits, "200", c.err
			}})
		k.services = noServices
		got, err := k.check(t.Context(), groups)
		if err != nil || len(got) != 1 || !slices.Equal(ports, c.ports) {
			t.Errorf("%s: %+v, %v, ports %v", name, got, err, ports)
		} else if d := difftest.Of("got[0].OK", got[0].OK, c.ok, "got[0].Detail", got[0].Detail, c.want, "got[0].impossible", got[0].impossible, (c.err != nil)); d != "" {
			t.Errorf("%s: %s: %+v, %v, ports %v", d, name, got, err, ports)
		}
	}
}

// Without an outside client nothing is tested. A mesh that admits plaintext has no check.
func TestPlaintextNotTested(t *testing.T) {
	k := newPlaintextCheck(ambient(t), Target{LoadInside: true, IsLoad: isLoad})
	k.services = noServices
	got, err := k.check(t.Context(), podGroups{})
	if err != nil || len(got) != 1 || !got[0].OK || !strings.HasPrefix(got[0].Detail, "not tested") {
		t.Errorf("without an outside client: %+v, %v", got, err)
	}
	k = newPlaintextCheck(ambient(t), Target{IsLoad: isLoad})
	if got, err := k.check(t.Context(), podGroups{}); err != nil || len(got) != 0 {
		t.Errorf("a mesh that admits plaintext: %+v, %v", got, err)
	}
}

// An application without a declared port is decided at once, with a caution in place of an endless "0 of 0".
func TestPlaintextWithoutPorts(t *testing.T) {
	k := newPlaintextCheck(ambient(t), Target{LoadInside: true, IsLoad: isLoad, Plaintext: func(context.Context, *corev1.Pod, int32) (bool, string, error) {
		t.Error("a request was sent")
		return false, "", nil
	}})
	k.services = noServices
	got, err := k.check(t.Context(), podGroups{inMesh: []*corev1.Pod{podWith("shop", container("web"))}})
	if err != nil || len(got) != 1 || !got[0].OK || got[0].Caution == "" || got[0].Hint == "" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestPortOfPod(t *testing.T) {
	selecting := func(name string, ports ...corev1.ServicePort) corev1.Service {
		return corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: ports}}
	}
	proxied := ambient(t)
	proxied.k.Proxies = []mesh.Proxy{{Role: "sidecar", In: mesh.InPod, Container: "the-proxy"}}
	k := newPlaintextCheck(proxied, Target{})
	web := container("web", corev1.ContainerPort{Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP}, corev1.ContainerPort{Name: "http", ContainerPort: 8080})
	for name, c := range map[string]struct {
		pod      *corev1.Pod
		services []corev1.Service
		want     int32
	}{
		"container":                      {podWith("shop", web), nil, 8080},
		"container beside a proxy":       {podWith("shop", container("the-proxy", corev1.ContainerPort{ContainerPort: 15090}), web), nil, 8080},
		"service, number":                {podWith("shop", web), []corev1.Service{selecting("shop", corev1.ServicePort{Port: 80, TargetPort: intstr.FromInt32(9090)})}, 9090},
		"service, no target port":        {podWith("shop"), []corev1.Service{selecting("shop", corev1.ServicePort{Port: 80})}, 80},
		"service, name":                  {podWith("shop", web), []corev1.Service{selecting("shop", corev1.ServicePort{Port: 80, TargetPort: intstr.FromString("http")})}, 8080},
		"service, unknown name":          {podWith("shop", web), []corev1.Service{selecting("shop", corev1.ServicePort{Port: 80, TargetPort: intstr.FromString("none")})}, 8080},
		"service, UDP":                   {podWith("shop", web), []corev1.Service{selecting("shop", corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolUDP})}, 8080},
		"service of another pod":         {podWith("shop", web), []corev1.Service{selecting("till", corev1.ServicePort{Port: 80})}, 8080},
		"service without a selector":     {podWith("shop", web), []corev1.Service{{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}}, 8080},
		"only UDP":                       {podWith("shop", container("dns", corev1.ContainerPort{ContainerPort: 53, Protocol: corev1.ProtocolUDP})), nil, 0},
		"only the proxy declares a port": {podWith("shop", container("the-proxy", corev1.ContainerPort{ContainerPort: 15090})), nil, 0},
	} {
		if got := k.portOf(c.pod, c.services); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// Applications that do not use HTTP answer too: only a closed connection or a TLS record is a refusal.
func TestJudgeAnswer(t *testing.T) {
	failure := func(code int32, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: message}}
	}
	const transport = "error trying to reach service: net/http: HTTP/1.x transport connection broken: malformed HTTP response "
	for name, c := range map[string]struct {
		code     int
		err      error
		admitted bool
		decided  bool
	}{
		"200":                   {http.StatusOK, nil, true, true},
		"404":                   {http.StatusNotFound, failure(404, "the server could not find the requested resource"), true, true},
		"a proxy's 403":         {http.StatusForbidden, failure(403, "unknown"), false, true},
		"the API server's 403":  {http.StatusForbidden, failure(403, `pods "shop" is forbidden: User "jo" cannot get resource "pods/proxy"`), false, false},
		"closed":                {http.StatusServiceUnavailable, failure(503, "error trying to reach service: EOF"), false, true},
		"TLS alert":             {http.StatusServiceUnavailable, failure(503, transport+fmt.Sprintf("%q", "\x15\x03\x01\x00\x02\x02F")), false, true},
		"HTTP/2 settings frame": {http.StatusServiceUnavailable, failure(503, transport+fmt.Sprintf("%q", "\x00\x00\x06\x04\x00\x00\x00\x00\x00")), true, true},
		"redis":                 {http.StatusServiceUnavailable, failure(503, transport+fmt.Sprintf("%q", "-ERR wrong number of arguments for 'get' command")), true, true},
		"no route":              {http.StatusServiceUnavailable, failure(503, "error trying to reach service: dial tcp 10.0.0.1:80: i/o timeout"), false, false},
	} {
		admitted, detail, err := judgeAnswer(c.code, c.err)
		if admitted != c.admitted || (err == nil) != c.decided {
			t.Errorf("%s: admitted %v, %q, %v", name, admitted, detail, err)
		}
	}
}

// A check that cannot be made is repeated for decideWithin. It then fails and ends the verification.
func TestImpossibleCheckIsDecided(t *testing.T) {
	now := time.Unix(0, 0)
	v := newVerifier(ambient(t), Target{})
	v.now = func() time.Time { return now }
	good, lost := result{Check: check.Check{Name: "version", OK: true}}, result{impossible: true, Check: check.Check{Name: "counters", Detail: "refused"}}
	round := func(after time.Duration, found ...result) (check.Check, bool) {
		now = now.Add(after)
		checks, decided := v.decide(found)
		failed, _ := check.Failed(checks)
		return failed, decided
	}
	if _, decided := round(0, good, lost); decided {
		t.Error("decided in the first round")
	}
	if _, decided := round(decideWithin-time.Second, good, lost); decided {
		t.Error("decided too early")
	}
	if c, decided := round(time.Second, good, lost); !decided || c.Name != "counters" || !strings.Contains(c.Detail, "refused (for 30s)") {
		t.Errorf("decided %v, %+v", decided, c)
	}
	// Once it could be made, the time starts again.
	lost.impossible = false
	if _, decided := round(time.Second, lost); decided {
		t.Error("a failed check is not impossible")
	}
	lost.impossible = true
	if _, decided := round(2*decideWithin, lost); decided {
		t.Error("the earlier failure counts")
	}
}

// The API server passes on what a pod answers. A client keeps the status code of a text only in its error: Go's 404 is an
// answer of the application, and Envoy's 403 a refusal.
func TestAnswersThroughAPIServer(t *testing.T) {
	for status, c := range map[int]struct {
		text     string
		admitted bool
	}{
		http.StatusNotFound:  {"404 page not found", true},
		http.StatusForbidden: {"RBAC: access denied", false},
		http.StatusOK:        {"ok", true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, c.text, status) }))
		web := podWith("web")
		web.Namespace = "shop"
		typed := must.Get(kubernetes.NewForConfig(&rest.Config{Host: server.URL}))(t)
		admitted, detail, err := throughAPIServer(t.Context(), typed, web, 8080)
		if want := fmt.Sprintf("status %d", status); err != nil || admitted != c.admitted || detail != want {
			t.Errorf("status %d: admitted %v, %q, %v", status, admitted, detail, err)
		}
		server.Close()
	}
}
