package meshes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// plaintextTries is the number of requests without TLS to each pod. None may be admitted.
const plaintextTries = 3

// plaintextCheck verifies that requests without TLS from outside the mesh are refused, if the mesh claims that.
type plaintextCheck struct {
	*instance
	target   Target
	services func(ctx context.Context, namespace string) ([]corev1.Service, error)
	request  PlaintextRequest
}

func newPlaintextCheck(i *instance, t Target) *plaintextCheck {
	k := &plaintextCheck{instance: i, target: t, request: func(ctx context.Context, p *corev1.Pod, port int32) (admitted bool, detail string, err error) {
		return throughAPIServer(ctx, i.cluster.Typed(), p, port)
	}}
	if i.k.Plaintext.NodeExempt {
		k.request = t.Plaintext
	}
	k.services = func(ctx context.Context, namespace string) ([]corev1.Service, error) {
		list, err := cluster.Retried(ctx, i.cluster, "list the services of "+namespace, func(ctx context.Context) (*corev1.ServiceList, error) {
			return i.cluster.Typed().CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
		})
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	}
	return k
}

// check sends requests to one port of each pod of the application. Nothing is tested without an outside client, or if no
// pod has a TCP port: the check then holds, with a caution in the latter case.
func (k *plaintextCheck) check(ctx context.Context, g podGroups) ([]result, error) {
	refuses, err := k.k.RefusesPlaintext(k.settings, k.target.Namespace, k.target.way())
	if err != nil || !refuses {
		return nil, err
	}
	r := result{Check: check.Check{Name: "plaintext is refused"}}
	if k.request == nil {
		r.OK, r.Detail = true, "not tested: the mesh admits traffic from nodes for the kubelet's probes, and there is no client pod outside the mesh"
		return []result{r}, nil
	}
	services, err := k.services(ctx, k.target.Namespace)
	if err != nil {
		return nil, err
	}
	sent := 0
	for _, p := range g.inMesh {
		port := k.portOf(p, services)
		if k.target.IsLoad(p) || port == 0 {
			continue
		}
		for range plaintextTries {
			admitted, detail, err := k.request(ctx, p, port)
			if err != nil {
				r.impossible, r.Detail = true, fmt.Sprintf("no answer from port %d of pod %s: %v", port, p.Name, err)
				r.Hint = "without an answer it is unknown whether the mesh refuses plaintext"
				return []result{r}, nil
			}
			sent++
			if admitted {
				r.Detail, r.Hint = fmt.Sprintf("port %d of pod %s answered: %s", port, p.Name, detail), "the mesh's policy is not in force, or the pod is not in the mesh"
				if missing := k.policiesMissing(ctx); missing != "" {
					r.Hint = missing
				}
				return []result{r}, nil
			}
		}
	}
	r.OK, r.Detail = true, fmt.Sprintf("%d of %d requests without TLS were refused", sent, sent)
	if sent == 0 && len(g.inMesh) > 0 {
		r.Detail = "not tested: neither a Service nor a container of the pods in the mesh declares a TCP port"
		r.Caution, r.Hint = "plaintext to the application was not tested: no TCP port is declared", "declare the application's ports in a Service or in its containers"
	}
	return []result{r}, nil
}

// policiesMissing is a hint that lists the objects that trials apply in their namespace to refuse plaintext, and that
// this namespace lacks. It is "" if there are none, or if they cannot be read.
func (k *plaintextCheck) policiesMissing(ctx context.Context) string {
	enrolled, err := k.k.Enrol(k.settings, k.target.Namespace, k.target.way())
	if err != nil || k.cluster == nil {
		return ""
	}
	var missing []cluster.Ref
	var documents []string
	for _, text := range enrolled.Manifests {
		objects, err := cluster.Parse([]byte(text))
		if err != nil {
			return ""
		}
		for _, o := range objects {
			o.SetNamespace(k.target.Namespace)
			ref, err := cluster.RefOf(o)
			if err != nil {
				return ""
			}
			if _, err := k.cluster.Get(ctx, ref); cluster.IsNotFound(err) {
				missing = append(missing, ref)
				documents = append(documents, strings.TrimSpace(text))
			}
		}
	}
	if missing == nil {
		return ""
	}
	return fmt.Sprintf("trials apply a policy that namespace %s lacks (%s): apply it, or verify with the mesh's policy as it is (--option mtls=PERMISSIVE of istio). `kubectl apply -n %s -f -` with\n%s",
		k.target.Namespace, list(missing), k.target.Namespace, documents[0])
}

// portOf is the pod's first port of a Service, otherwise of a container that is not a proxy, 0 if it has none.
func (k *plaintextCheck) portOf(p *corev1.Pod, services []corev1.Service) int32 {
	for _, s := range services {
		if len(s.Spec.Selector) == 0 || !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels)) {
			continue
		}
		for _, port := range s.Spec.Ports {
			if target := targetPort(p, port); isTCP(port.Protocol) && target != 0 {
				return target
			}
		}
	}
	for _, c := range p.Spec.Containers {
		if slices.ContainsFunc(k.k.Proxies, func(x mesh.Proxy) bool { return x.In == mesh.InPod && mesh.Match(x.Container, c.Name) }) {
			continue
		}
		for _, port := range c.Ports {
			if isTCP(port.Protocol) {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// targetPort resolves a Service's port in a pod, 0 if the pod has no port of that name.
func targetPort(p *corev1.Pod, port corev1.ServicePort) int32 {
	if port.TargetPort.Type == intstr.Int {
		if port.TargetPort.IntVal != 0 {
			return port.TargetPort.IntVal
		}
		return port.Port
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		for _, declared := range c.Ports {
			if declared.Name == port.TargetPort.StrVal && isTCP(declared.Protocol) {
				return declared.ContainerPort
			}
		}
	}
	return 0
}

func isTCP(p corev1.Protocol) bool { return p == corev1.ProtocolTCP || p == "" }

// throughAPIServer sends a request through the API server, which is in no mesh and uses plain HTTP.
func throughAPIServer(ctx context.Context, client kubernetes.Interface, p *corev1.Pod, port int32) (admitted bool, detail string, err error) {
	ctx, cancel := context.WithTimeout(ctx, getWithin)
	defer cancel()
	var code int
	r := client.CoreV1().RESTClient().Get().Namespace(p.Namespace).Resource("pods").
		Name(fmt.Sprintf("http:%s:%d", p.Name, port)).SubResource("proxy").Suffix("/").Do(ctx).StatusCode(&code)
	return judgeAnswer(code, r.Error())
}

// closed are errors of connections that were closed without an answer.
var closed = []string{"EOF", "connection reset", "server gave HTTP response"}

// Answers that are not HTTP. A TLS record (alert or handshake) is a proxy's refusal, other bytes come from an application
// with another protocol.
var (
	notHTTP   = regexp.MustCompile(`malformed HTTP (?:response|status code|version) \\?"`)
	tlsRecord = regexp.MustCompile(`malformed HTTP response \\?"\\+x1[56]\\+x03`)
)

// judgeAnswer classifies the answer to a request without TLS, by its status and error.
func judgeAnswer(code int, failure error) (admitted bool, detail string, err error) {
	if failure == nil {
		return true, fmt.Sprintf("status %d", code), nil
	}
	text := failure.Error()
	if status := apierrors.APIStatus(nil); errors.As(failure, &status) {
		if code == 0 { // client-go keeps the status code of a text, such as Go's 404 and Envoy's 403, only in the error
			code = int(status.Status().Code)
		}
		text += " " + status.Status().Message
		if d := status.Status().Details; d != nil {
			for _, c := range d.Causes {
				text += " " + c.Message
			}
		}
	}
	switch {
	case code == http.StatusForbidden && strings.Contains(text, "cannot get resource"): // the API server's, for a missing permission
		return false, "", failure
	case code == http.StatusForbidden: // a proxy's
		return false, "status 403", nil
	case tlsRecord.MatchString(text), slices.ContainsFunc(closed, func(s string) bool { return strings.Contains(text, s) }):
		return false, text, nil
	case notHTTP.MatchString(text):
		return true, "not HTTP: " + text, nil
	case code >= 400 && code < 500 || code == http.StatusInternalServerError && strings.Contains(text, "unknown"):
		return true, fmt.Sprintf("status %d", code), nil
	}
	return false, "", failure
}
