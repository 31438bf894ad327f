package meshes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tare-mesh/tare/internal/base/check"
)

// plaintextTries is how often each pod is asked without TLS: one request that is let in is one too many.
const plaintextTries = 3

// plaintext checks that a request without TLS from outside of the mesh is refused, where the mesh says it refuses it.
func (m *Mesh) plaintext(ctx context.Context, t Target, d divided) ([]check.Check, error) {
	refuses, err := m.k.RefusesPlaintext(m.settings, t.Namespace, t.way())
	if err != nil || !refuses {
		return nil, err
	}
	const name = "plaintext is refused"
	try := m.fromAPIServer
	if m.k.Plaintext.NodeExempt {
		if try = t.Plaintext; try == nil {
			return []check.Check{{Name: name, OK: true,
				Detail: "not tried: what comes from a node is let in for kubelet's sake, and there is no pod outside of the mesh to try it from"}}, nil
		}
	}
	asked := 0
	for _, p := range d.in {
		port := portOf(p)
		if t.IsLoad(p) || port == 0 {
			continue
		}
		for range plaintextTries {
			admitted, detail, err := try(ctx, p, port)
			if err != nil {
				return []check.Check{{Name: name, Detail: fmt.Sprintf("pod %s could not be asked: %v", p.Name, err), Hint: "nobody knows then whether it would be let in"}}, nil
			}
			asked++
			if admitted {
				return []check.Check{{Name: name, Detail: fmt.Sprintf("pod %s answered: %s", p.Name, detail), Hint: "the mesh's policy is not in force, or the pod is not in the mesh"}}, nil
			}
		}
	}
	return []check.Check{{Name: name, OK: asked > 0, Detail: fmt.Sprintf("%d of %d requests without TLS were refused", asked, asked)}}, nil
}

// portOf is the first TCP port of an application's own containers; 0: it has none.
func portOf(p *corev1.Pod) int32 {
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if c.Name == "app" && (port.Protocol == corev1.ProtocolTCP || port.Protocol == "") {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// refusals are how the API server says that what it asked a pod for was cut off.
var refusals = []string{"EOF", "connection reset", "malformed HTTP response", "server gave HTTP response"}

// fromAPIServer asks a pod through the API server, which is in no mesh and speaks plain HTTP.
func (m *Mesh) fromAPIServer(ctx context.Context, p *corev1.Pod, port int32) (admitted bool, detail string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var code int
	result := m.cluster.Typed().CoreV1().RESTClient().Get().Namespace(p.Namespace).Resource("pods").
		Name(fmt.Sprintf("http:%s:%d", p.Name, port)).SubResource("proxy").Suffix("/").Do(ctx).StatusCode(&code)
	if err = result.Error(); err == nil {
		return true, fmt.Sprintf("status %d", code), nil
	}
	text := err.Error()
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		text += " " + status.Status().Message
		for _, cause := range causes(status) {
			text += " " + cause
		}
	}
	switch {
	case code == http.StatusForbidden && !strings.Contains(text, "cannot get resource"): // a proxy's answer, and not the API server's
		return false, "status 403", nil
	case slices.ContainsFunc(refusals, func(s string) bool { return strings.Contains(text, s) }):
		return false, text, nil
	case code >= 400 && code < 500 || code == http.StatusInternalServerError && strings.Contains(text, "unknown"):
		return true, fmt.Sprintf("status %d", code), nil
	}
	return false, "", err
}

func causes(s apierrors.APIStatus) (all []string) {
	if d := s.Status().Details; d != nil {
		for _, c := range d.Causes {
			all = append(all, c.Message)
		}
	}
	return all
}
