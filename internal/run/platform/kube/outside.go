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

	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Ways into the cluster for a load that is sent from here, as the experiment file names them (platform.expose).
const (
	exposeNodePort     = "nodePort"
	exposeLoadBalancer = "loadBalancer"
	exposePortForward  = "portForward"
)

// serviceTypes are those of the entry's Service, by the way in.
var serviceTypes = map[string]corev1.ServiceType{exposeNodePort: corev1.ServiceTypeNodePort, exposeLoadBalancer: corev1.ServiceTypeLoadBalancer}

const (
	// dialTimeout bounds one attempt to connect to an address of the cluster, and dialPause lies between two.
	dialTimeout = 2 * time.Second
	dialPause   = 250 * time.Millisecond
	// balancerWithin is how long a load balancer may take to get an address.
	balancerWithin = 4 * time.Minute
	noBalancer     = "the cluster may have nobody who makes load balancers: platform: {expose: nodePort} goes without"
)

// passesBy says that the way in ends beside the proxies of a mesh, so that nothing of it would be in the path.
func (p *Platform) passesBy(m mesh.Definition) error {
	if !p.options.Outside || p.options.Expose != exposePortForward || m.Kubernetes == nil {
		return nil
	}
	return &Error{fmt.Errorf("mesh %s: %w with platform.expose: %s, which ends inside the entry's pod, beside the mesh", m.Name, errors.ErrUnsupported, exposePortForward),
		"write platform: {expose: nodePort}, or loadBalancer where the cluster has one"}
}

// serviceType is that of the Service that the load is sent to.
func (p *Platform) serviceType() corev1.ServiceType {
	if t := serviceTypes[p.options.Expose]; p.options.Outside && t != "" {
		return t
	}
	return corev1.ServiceTypeClusterIP
}

// expose has the entry's Service lead into the cluster, unless a gateway's does.
func (d *deployment) expose(s *corev1.Service) {
	if t := d.platform.serviceType(); t != corev1.ServiceTypeClusterIP && d.enrolment.gateway == nil && s.Name == d.spec.Entry().Name {
		s.Spec.Type = t
	}
}

// openWay finds how the entry is reached from this machine, and sees that it can be.
func (d *deployment) openWay(ctx context.Context) error {
	if d.cluster.DryRun() {
		d.outside.roots = []string{"http://" + d.platform.options.Expose + ".invalid/"} // known once the Service is there
		return nil
	}
	ways := map[string]func(context.Context) ([]string, error){
		exposeNodePort: d.nodePorts, exposeLoadBalancer: d.balancers, exposePortForward: d.forwarded}
	find, ok := ways[d.platform.options.Expose]
	if !ok {
		return fmt.Errorf("reach the entry from outside: there is no way %q", d.platform.options.Expose)
	}
	candidates, err := find(ctx)
	if err != nil {
		return fmt.Errorf("reach the entry from outside: %w", err)
	}
	if d.platform.options.Expose == exposePortForward { // one for each pod, and all of them are this machine's
		for _, address := range candidates {
			d.outside.roots = append(d.outside.roots, "http://"+address+"/")
		}
		return nil
	}
	address, err := answering(ctx, candidates)
	if err != nil {
		return &Error{fmt.Errorf("reach the entry from outside: %w", err),
			"see that this machine may connect to it; platform.expose names other ways, of which portForward always leads there, by way of the API server"}
	}
	d.outside.roots = []string{"http://" + address + "/"}
	return nil
}

// nodePorts are the addresses of the nodes that the pods of the way in stand on, at the port that was given out.
func (d *deployment) nodePorts(ctx context.Context) ([]string, error) {
	in := d.wayIn()
	service, err := d.cluster.Get(ctx, in.service)
	if err != nil {
		return nil, err
	}
	port := nodePort(service, in.port)
	if port == 0 {
		return nil, &Error{fmt.Errorf("%s has no node port", in.service), "a chart's Service is of the type that its values say: NodePort"}
	}
	var all []string
	for _, pod := range in.pods() {
		for _, host := range d.platform.addressesOf(pod) {
			if address := net.JoinHostPort(host, strconv.FormatInt(port, 10)); !slices.Contains(all, address) {
				all = append(all, address)
			}
		}
	}
	slices.Sort(all) // the same node for every trial, where the pods stand the same
	return all, nil
}

// nodePort is the one that a Service has for one of its ports; 0: none. A Service with one port has it whatever its number.
func nodePort(service *unstructured.Unstructured, port int) int64 {
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	for _, p := range ports {
		one, _ := p.(map[string]any)
		if n, _, _ := unstructured.NestedInt64(one, "port"); n == int64(port) || len(ports) == 1 {
			given, _, _ := unstructured.NestedInt64(one, "nodePort")
			return given
		}
	}
	return 0
}

// addressesOf are those of the node that a pod stands on.
func (p *Platform) addressesOf(pod *corev1.Pod) []string {
	for _, n := range p.nodes {
		if n.Name == pod.Spec.NodeName && len(n.Addresses) > 0 {
			return n.Addresses
		}
	}
	return []string{pod.Status.HostIP}
}

// balancers are the addresses that a load balancer was given, once it was.
func (d *deployment) balancers(ctx context.Context) (all []string, err error) {
	late := newPatience(d.platform.options.Report)
	defer late.end()
	ctx, cancel := context.WithTimeout(ctx, balancerWithin)
	defer cancel()
	in := d.wayIn()
	err = d.cluster.WaitFor(ctx, late.hear, in.service, func(o *unstructured.Unstructured) (bool, string) {
		all = nil
		given, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
		for _, g := range given {
			at, _ := g.(map[string]any)
			ip, _, _ := unstructured.NestedString(at, "ip")
			name, _, _ := unstructured.NestedString(at, "hostname")
			if host := cmp.Or(ip, name); host != "" {
				all = append(all, net.JoinHostPort(host, strconv.Itoa(in.port)))
			}
		}
		return len(all) > 0, "its load balancer has no address"
	})
	if err != nil {
		return nil, &Error{err, noBalancer}
	}
	return all, nil
}

// forwarded opens a port of this machine for each of the entry's pods.
func (d *deployment) forwarded(context.Context) (all []string, err error) {
	if d.charted != nil {
		return nil, &Error{fmt.Errorf("%w for a chart, whose pods' ports are its own affair", errors.ErrUnsupported), "write platform: {expose: nodePort}"}
	}
	for _, pod := range d.of(d.spec.Entry().Name) {
		f := d.cluster.Forward(d.namespace, pod.Name, servicePort)
		d.outside.forwards = append(d.outside.forwards, f)
		address, err := f.Listen()
		if err != nil {
			return nil, err
		}
		all = append(all, address)
	}
	return all, nil
}

// answering is the first of addresses that takes a connection; what was just made takes a little to reach every node.
func answering(ctx context.Context, addresses []string) (string, error) {
	if len(addresses) == 0 {
		return "", errors.New("it has no address")
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	pause := time.NewTicker(dialPause)
	defer pause.Stop()
	dialer := net.Dialer{Timeout: dialTimeout}
	for {
		var failed []error
		for _, address := range addresses {
			c, err := dialer.DialContext(ctx, "tcp", address)
			if err == nil {
				return address, c.Close()
			}
			failed = append(failed, err)
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return "", fmt.Errorf("no address takes a connection: %w", errors.Join(failed...))
		}
	}
}
