package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/meshes"
)

// Values of platform.expose.
const (
	exposeNodePort     = "nodePort"
	exposeLoadBalancer = "loadBalancer"
)

// serviceTypes are the types of the entry's Service, by platform.expose.
var serviceTypes = map[string]corev1.ServiceType{exposeNodePort: corev1.ServiceTypeNodePort, exposeLoadBalancer: corev1.ServiceTypeLoadBalancer}

const (
	// dialTimeout bounds one connection attempt to an address of the cluster. dialPause is the pause between two.
	dialTimeout = 2 * time.Second
	dialPause   = 250 * time.Millisecond
	// openTimeout bounds how long the path to ready pods may take to open: DNS names and endpoints reach the nodes
	// after the pods are ready.
	openTimeout = 20 * time.Second
	// balancerTimeout bounds how long a load balancer may take to get an address.
	balancerTimeout = 4 * time.Minute
	// gatewayTimeout bounds how long a gateway and its routes may take to be programmed, including the address of a
	// gateway of type LoadBalancer.
	gatewayTimeout = balancerTimeout

	adviceNoBalancer = "the cluster may have no load balancer controller: use platform: {expose: nodePort}"
)

// sampleFront is the destination of a gateway before the first trial is known.
var sampleFront = mesh.Front{Service: "app", Port: servicePort, Protocol: app.HTTP1, ServiceType: string(corev1.ServiceTypeClusterIP)}

// frontOf is the destination of a gateway of the trial.
func frontOf(o *Options, spec platform.Spec) mesh.Front {
	return mesh.Front{Service: spec.Entry().Name, Port: entryPortOf(spec), Protocol: spec.Protocol(spec.Entry()), ServiceType: string(o.serviceType())}
}

// entryPoint is the way of the load to the application: the entry's Service, or the mesh's ingress gateway.
type entryPoint struct {
	*trial
	pods *trialPods
	root string // URL for a load from this machine
}

// entryService is a Service that receives the load, its port and its pods.
type entryService struct {
	ref  cluster.Ref
	port int
	pods func() []*corev1.Pod
}

// Entry implements [platform.Running]. Inside the cluster it is the DNS name of the Service, shared by all replicas.
func (e *entryPoint) Entry() []string {
	if e.options.Outside {
		return e.spec.Targets([]string{e.root})
	}
	s := e.service()
	return e.spec.Targets([]string{fmt.Sprintf("http://%s.%s.%s:%d/", s.ref.Name, e.namespace, serviceSuffix, s.port)})
}

// awaitGateway waits until the conditions of the mesh's gateway and routes hold.
func (e *entryPoint) awaitGateway(ctx context.Context) error {
	if e.cluster.DryRun() || len(e.enrolment.Conditions) == 0 {
		return nil
	}
	progress := platform.NewDelayedReport(e.options.Report)
	defer progress.Close()
	ctx, cancel := context.WithTimeout(ctx, gatewayTimeout)
	defer cancel()
	for _, c := range e.enrolment.Conditions {
		err := e.cluster.WaitFor(ctx, progress.Add, meshes.ConditionRef(c, e.namespace), func(o *unstructured.Unstructured) (bool, string) { return c.Holds(o.Object) })
		if err == nil {
			continue
		}
		err = fmt.Errorf("wait for the gateway of mesh %s: %w", e.spec.Mesh.Name, err)
		if e.options.serviceType() == corev1.ServiceTypeLoadBalancer {
			return hint.Wrap(err, adviceNoBalancer)
		}
		return err
	}
	return nil
}

func (o *Options) serviceType() corev1.ServiceType {
	if t := serviceTypes[o.Expose]; o.Outside && t != "" {
		return t
	}
	return corev1.ServiceTypeClusterIP
}

// open finds the URL for a load from this machine.
func (e *entryPoint) open(ctx context.Context) (err error) {
	if !e.options.Outside {
		return nil
	}
	if e.cluster.DryRun() {
		e.root = "http://" + e.options.Expose + ".invalid/" // known only with a Service
		return nil
	}
	if e.root, err = e.findRoot(ctx); err != nil {
		return fmt.Errorf("reach the entry from outside: %w", err)
	}
	return nil
}

func (e *entryPoint) findRoot(ctx context.Context) (root string, err error) {
	var addresses []string
	switch e.options.Expose {
	case exposeNodePort:
		addresses, err = e.nodePortAddresses(ctx)
	case exposeLoadBalancer:
		addresses, err = e.balancerAddresses(ctx)
	default:
		err = fmt.Errorf("unknown value %q of platform.expose", e.options.Expose)
	}
	if err != nil {
		return "", err
	}
	address, err := firstReachable(ctx, addresses)
	return "http://" + address + "/", hint.Wrap(err, "allow this machine to connect to it, change platform.expose, or send the load from inside (load.from: inside)")
}

// nodePortAddresses are the addresses of the nodes of the entry's pods, with the node port.
func (e *entryPoint) nodePortAddresses(ctx context.Context) ([]string, error) {
	s := e.service()
	service, err := e.cluster.Get(ctx, s.ref)
	if err != nil {
		return nil, err
	}
	port := nodePortOf(service, s.port)
	if port == 0 {
		return nil, hint.New("set the type of the Service to NodePort, in a chart by its values", "%s has no node port", s.ref)
	}
	var all []string
	for _, pod := range s.pods() {
		for _, host := range e.nodes.addressesOf(pod) {
			if address := net.JoinHostPort(host, strconv.FormatInt(port, 10)); !slices.Contains(all, address) {
				all = append(all, address)
			}
		}
	}
	slices.Sort(all) // the same node for every trial with the same placement
	return all, nil
}

// nodePortOf is the node port of one port of a Service, or 0. In a Service with a single port that port counts.
func nodePortOf(service *unstructured.Unstructured, port int) int64 {
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	for _, p := range ports {
		one, _ := p.(map[string]any)
		if n, _, _ := unstructured.NestedInt64(one, "port"); n == int64(port) || len(ports) == 1 {
			nodePort, _, _ := unstructured.NestedInt64(one, "nodePort")
			return nodePort
		}
	}
	return 0
}

// balancerAddresses waits for the addresses of the Service's load balancer.
func (e *entryPoint) balancerAddresses(ctx context.Context) (all []string, err error) {
	progress := platform.NewDelayedReport(e.options.Report)
	defer progress.Close()
	ctx, cancel := context.WithTimeout(ctx, balancerTimeout)
	defer cancel()
	s := e.service()
	err = e.cluster.WaitFor(ctx, progress.Add, s.ref, func(o *unstructured.Unstructured) (bool, string) {
		all = nil
		ingress, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
		for _, i := range ingress {
			at, _ := i.(map[string]any)
			ip, _, _ := unstructured.NestedString(at, "ip")
			name, _, _ := unstructured.NestedString(at, "hostname")
			if host := cmp.Or(ip, name); host != "" {
				all = append(all, net.JoinHostPort(host, strconv.Itoa(s.port)))
			}
		}
		return len(all) > 0, "its load balancer has no address"
	})
	return all, hint.Wrap(err, adviceNoBalancer)
}

// service is the gateway's Service, or the entry's without a gateway.
func (e *entryPoint) service() entryService {
	s := entryService{ref: cluster.Ref{Kind: cluster.KindService, Namespace: e.namespace, Name: e.spec.Entry().Name}, port: entryPortOf(e.spec),
		pods: func() []*corev1.Pod { return e.pods.ofService(e.spec.Entry().Name) }}
	if g := e.enrolment.gateway; g != nil {
		s.ref.Name, s.port, s.pods = g.Service, g.Port, e.gatewayPods
	}
	return s
}

func entryPortOf(spec platform.Spec) int {
	port := spec.Entry().Port
	if c := spec.Topology.Chart; c != nil {
		port = cmp.Or(port, c.Port)
	}
	if spec.Topology.Foreign() {
		return cmp.Or(port, defaultForeignPort)
	}
	return servicePort
}

func (e *entryPoint) gatewayPods() []*corev1.Pod {
	return slices.DeleteFunc(e.pods.all(), func(pod *corev1.Pod) bool { return !e.enrolment.gateway.Proxy.Selects(pod.Labels) })
}

func (e *entryPoint) Warnings() (all []platform.Warning) {
	if ns := e.spec.Topology.Namespace; ns != "" && !e.options.InPlace {
		all = append(all, platform.Warning{
			Code:    "original-runs",
			Message: "the application in namespace " + ns + ", the original of the copy, runs too: no figure includes its CPU, and it disturbs all figures",
			Hint:    "measure while it is idle, or on another cluster by application: {manifests: …}",
		})
	}
	if first, now := e.options.placements.compare(e.pods); first != now {
		all = append(all, platform.Warning{
			Code:    "placement-differs",
			Message: fmt.Sprintf("pods share nodes as [%s], and in the first such trial as [%s]: calls cross other nodes", now, first),
			Hint:    "was a node cordoned, lost or added? platform.affinity: labels, or factors.placement, fixes the nodes",
		})
	}
	return all
}

// firstReachable is the first of addresses that accepts a connection. A new Service takes some time to reach every node.
func firstReachable(ctx context.Context, addresses []string) (string, error) {
	if len(addresses) == 0 {
		return "", errors.New("no address")
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	reached := ""
	err := wait.Within(ctx, openTimeout, dialPause, func(ctx context.Context) error {
		var failed []error
		for _, address := range addresses {
			c, err := dialer.DialContext(ctx, "tcp", address)
			if err == nil {
				reached = address
				return c.Close()
			}
			failed = append(failed, err)
		}
		return fmt.Errorf("no address accepts a connection: %w", errors.Join(failed...))
	})
	return reached, err
}
