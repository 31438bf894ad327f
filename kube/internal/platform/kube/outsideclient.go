package kube

import (
	"bytes"
	"context"
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
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/worker"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

const (
	// outsideClientName is the pod's name and the suffix of its namespace.
	outsideClientName = "outside-client"
	// outsideClientTimeout bounds one of its requests.
	outsideClientTimeout = 5 * time.Second
)

// OutsideClient is a pod outside the mesh that sends plaintext requests to pods inside. A mesh that admits requests from
// nodes, such as the API server's, cannot be tested otherwise. The pod has a namespace of its own, without the
// labels of the mesh. It exists only during verification and is not measured.
type OutsideClient struct {
	applier   *applier
	namespace string
	worker    *loadWorker // nil until the first request
}

// NewOutsideClient prepares the client beside an application that tare did not deploy. Cluster, Run and Image of the options
// are used.
func NewOutsideClient(o Options) *OutsideClient {
	if o.Report == nil {
		o.Report = func(string) {}
	}
	return newOutsideClient(&applier{trial: &trial{options: &o, cluster: o.Cluster, namespace: namespacePrefix(o.Run)}})
}

func newOutsideClient(a *applier) *OutsideClient {
	const suffix = "-" + outsideClientName
	return &OutsideClient{applier: a, namespace: strings.TrimRight(a.namespace[:min(len(a.namespace), maxLabel-len(suffix))], "-") + suffix}
}

// Request sends one request without TLS to a pod's port and reports whether it was admitted. A request that reached no
// listener is an error.
func (o *OutsideClient) Request(ctx context.Context, pod *corev1.Pod, port int32) (admitted bool, detail string, err error) {
	if o.worker == nil {
		if err := o.Create(ctx); err != nil {
			return false, "", fmt.Errorf("create a pod outside the mesh: %w", err)
		}
	}
	stdin, err := json.Marshal(o.profile(pod, port))
	if err != nil {
		return false, "", fmt.Errorf("write load profile: %w", err)
	}
	_, out, errOut, err := o.worker.output(ctx, worker.Command{Path: "/" + agentProgram, Args: []string{"load"}, Stdin: stdin})
	if err != nil {
		return false, "", fmt.Errorf("send a request from pod %s/%s: %w", o.namespace, outsideClientName, err)
	}
	report, err := load.LastReport(out)
	if err != nil {
		return false, "", fmt.Errorf("%w: %.300s", err, bytes.TrimSpace(errOut))
	}
	return admission(report)
}

// profile is one request in the protocol of the pod's service. A gRPC server that lacks the method answers too.
func (o *OutsideClient) profile(pod *corev1.Pod, port int32) load.Profile {
	protocol, path := o.protocol(pod), "/"
	if protocol == app.GRPC {
		path = app.GRPCMethod
	}
	return load.Profile{
		Targets:     []string{"http://" + net.JoinHostPort(pod.Status.PodIP, fmt.Sprint(port)) + path},
		Connections: 1, Workers: 1, Protocol: protocol, ExpectSize: -1, Timeout: outsideClientTimeout, Measure: outsideClientTimeout, Requests: 1, Drain: outsideClientTimeout,
	}
}

func (o *OutsideClient) protocol(pod *corev1.Pod) string {
	if service, ok := o.applier.spec.Topology.Service(o.applier.serviceOf(pod)); ok {
		return o.applier.spec.Protocol(service)
	}
	return app.HTTP1
}

var (
	// closedErrors are errors of a connection that was accepted and closed without a response.
	closedErrors = []string{"reset", "closed before an answer", "idle connection closed"}
	// connectErrors are errors of a connection that was not accepted. They show nothing about the mesh.
	connectErrors = []string{"connect refused", "connect failed", "timeout", "timeout before a connection was free", "out of file descriptors", "out of local ports"}
)

// refusals are the statuses of a proxy that refuses a request: forbidden, and gRPC's permission denied.
var refusals = []string{"403", load.StatusGRPCPrefix + "7"}

// admission judges one request by its end. Any response, even a malformed one, comes from the application, except the
// refusals of a proxy.
func admission(r load.Report) (admitted bool, detail string, err error) {
	for status := range r.Statuses {
		return !slices.Contains(refusals, status), "status " + status, nil
	}
	if r.Classes[load.OK] > 0 { // an echo, which has no status
		return true, "answered", nil
	}
	for failure := range r.Errors {
		if failure == load.FailureUpgrade.String() && strings.HasPrefix(r.Reasons[failure], "status 403") {
			return false, "status 403", nil
		}
		if slices.Contains(connectErrors, failure) {
			return false, "", errors.New(failure)
		}
		return !slices.Contains(closedErrors, failure), failure, nil
	}
	return false, "", errors.New("the request did not end")
}

// Create creates the pod and connects to it.
func (o *OutsideClient) Create(ctx context.Context) error {
	if err := o.applier.createNamespace(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.namespace}}); err != nil {
		return err
	}
	token := newToken(false)
	err := o.applier.apply(ctx,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: tokenName}, StringData: map[string]string{tokenKey: token}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: outsideClientName}, Spec: manifests{o.applier.trial}.workerPod()})
	if err != nil {
		return err
	}
	if err := o.applier.wait(ctx, cluster.Ref{Kind: cluster.KindPod, Namespace: o.namespace, Name: outsideClientName}); err != nil {
		return err
	}
	o.worker = o.applier.dial(o.namespace, outsideClientName, token)
	return nil
}

// Remove deletes the pod and its namespace, if they were created, and waits until they are gone.
func (o *OutsideClient) Remove(ctx context.Context) error {
	ctx, cancel := removalContext(ctx)
	defer cancel()
	if o.worker != nil {
		o.worker.forward.Close()
	}
	if err := o.applier.deleteNamespace(ctx, o.namespace); err != nil {
		return fmt.Errorf("remove the pod outside the mesh: %w", err)
	}
	return nil
}
