package kube

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/load/loadgen"
	"github.com/tare-mesh/tare/internal/load/worker"
)

// strangerName is that of the pod, and what its namespace's name ends in.
const strangerName = "stranger"

// strangerTimeout is how long one of its requests may take.
const strangerTimeout = 5 * time.Second

// stranger is a pod that is in no mesh. What a mesh does with plaintext can be seen from nowhere else where it lets in
// whatever comes from a node, as the API server's requests do. It has a namespace of its own, so that no mark of the
// trial's reaches it, and is there only while it is asked for: nothing of it is measured.
type stranger struct {
	d         *deployment
	namespace string
	worker    *loadWorker // nil: it has not been needed yet
}

func (d *deployment) newStranger() *stranger {
	const end = "-" + strangerName
	return &stranger{d: d, namespace: strings.TrimRight(d.namespace[:min(len(d.namespace), maxLabel-len(end))], "-") + end}
}

// ask sends a pod's port one request without TLS, and says whether anything was answered. That the request did not get so
// far as to be let in or not is an error.
func (s *stranger) ask(ctx context.Context, pod *corev1.Pod, port int32) (admitted bool, detail string, err error) {
	if s.worker == nil {
		if err := s.appear(ctx); err != nil {
			return false, "", fmt.Errorf("make a pod outside of the mesh: %w", err)
		}
	}
	profile := loadgen.Profile{
		Targets:     []string{fmt.Sprintf("http://%s/", net.JoinHostPort(pod.Status.PodIP, fmt.Sprint(port)))},
		Connections: 1, Workers: 1, Protocol: s.protocol(pod), Timeout: strangerTimeout, Measure: strangerTimeout, Requests: 1, Drain: strangerTimeout,
	}
	stdin, err := json.Marshal(profile)
	if err != nil {
		return false, "", fmt.Errorf("write load profile: %w", err)
	}
	run, err := s.worker.client.Start(ctx, worker.Command{ID: strings.ToLower(rand.Text()), Path: "/" + agentProgram, Args: []string{"load"}, Stdin: stdin})
	if err != nil {
		return false, "", fmt.Errorf("ask from pod %s/%s: %w", s.namespace, strangerName, err)
	}
	var out bytes.Buffer
	if err := run.Copy(ctx, worker.Stdout, &out); err != nil {
		return false, "", fmt.Errorf("ask from pod %s/%s: %w", s.namespace, strangerName, err)
	}
	report, err := lastReport(out.Bytes())
	if err != nil {
		return false, "", err
	}
	return letIn(report)
}

func (s *stranger) protocol(pod *corev1.Pod) string {
	if of, ok := s.d.spec.Topology.Service(pod.Labels[labelService]); ok {
		return s.d.spec.Protocol(of)
	}
	return app.HTTP1
}

// cutOff are the errors of a connection that was taken and then closed without a byte; never are those of one that was
// not even taken, which says nothing of the mesh.
var (
	cutOff = []string{"reset", "closed before an answer"}
	never  = []string{"connect refused", "connect failed", "timeout", "timeout before a connection was free", "out of file descriptors", "out of local ports"}
)

// letIn judges one request by how it ended: any answer, a broken one too, is one of the application's, but for the 403 of
// a proxy.
func letIn(r loadgen.Report) (admitted bool, detail string, err error) {
	for status := range r.Statuses {
		return status != "403", "status " + status, nil
	}
	for how := range r.Errors {
		if slices.Contains(never, how) {
			return false, "", errors.New(how)
		}
		return !slices.Contains(cutOff, how), how, nil
	}
	return false, "", errors.New("the request did not end")
}

// appear makes the pod and finds the way to it.
func (s *stranger) appear(ctx context.Context) error {
	d := s.d
	ns := cluster.Ref{Kind: cluster.KindNamespace, Name: s.namespace}
	if err := d.clear(ctx, ns); err != nil {
		return err
	}
	d.made = append(d.made, ns)
	if err := d.cluster.Apply(ctx, d.stamp(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}); err != nil {
		return err
	}
	if err := d.wait(ctx, ns); err != nil {
		return err
	}
	token := rand.Text()
	err := d.cluster.Apply(ctx, d.stamp(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: tokenName}, StringData: map[string]string{tokenKey: token}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: strangerName}, Spec: d.workerPod()})
	if err != nil {
		return err
	}
	if err := d.wait(ctx, cluster.Ref{Kind: cluster.KindPod, Namespace: s.namespace, Name: strangerName}); err != nil {
		return err
	}
	forward := d.cluster.Forward(s.namespace, strangerName, workerPort)
	s.worker = &loadWorker{strangerName, forward, worker.NewClient(forward.DialContext, token)}
	return nil
}

// leave takes the pod away, and waits until it is gone.
func (s *stranger) leave(ctx context.Context) error {
	if s.worker != nil {
		s.worker.forward.Close()
	}
	ns := cluster.Ref{Kind: cluster.KindNamespace, Name: s.namespace}
	i := slices.Index(s.d.made, ns)
	if i < 0 {
		return nil
	}
	if err := s.d.cluster.Delete(ctx, s.d.platform.options.Report, ns); err != nil {
		return fmt.Errorf("take away the pod outside of the mesh: %w", err)
	}
	s.d.made = slices.Delete(s.d.made, i, i+1)
	return nil
}
