package cluster

import (
	"bytes"
	"embed"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"text/template"

	"github.com/tare-mesh/tare/test/cluster/internal/parts"
	"github.com/tare-mesh/tare/test/cluster/internal/pki"
)

//go:embed manifests
var manifests embed.FS

// values are the fields and functions of the templates in manifests/.
type values struct {
	node
	CoreDNS       string // image
	MetricsServer string // image
}

func (v values) PKI() string      { return v.pki() }
func (v values) NodeName() string { return v.name() }
func (v values) PodRange() string { return v.pods().String() }
func (v values) Serving() string  { return v.pki() + "/" + v.suffixed("kubelet-serving") }
func (v values) Several() bool    { return v.several() }

// Cgroup is the node's control group as the node sees it.
func (v values) Cgroup() string {
	if v.several() {
		return "/"
	}
	return "/" + v.cgroupName()
}

func (v values) ResolvConf() string { return v.file("resolv.conf") }

func render(name string, data any) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").ParseFS(manifests, "manifests/"+name)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		return nil, fmt.Errorf("fill in %s: %w", name, err)
	}
	return out.Bytes(), nil
}

func (l Layout) pki() string { return l.file("pki") }

// state lists the directories that survive a restart of a daemon, and their mount points.
var state = []struct{ dir, at string }{
	{"kubelet", "/var/lib/kubelet"},
	{"containerd", "/var/lib/containerd"},
	{"pods", "/var/log/pods"},
	{"etcd", ""},
	{"pki", ""},
	{"sysctl", ""},
}

// configuration writes the daemons' input: files, certificates, kubeconfigs.
type configuration struct{ Layout }

// configure writes everything the daemons read.
func (l configuration) configure(source parts.Source) error {
	for _, n := range l.nodes() {
		if err := n.configure(source); err != nil {
			return err
		}
	}
	// Pods with the node's DNS have no resolver: no query may leave the cluster.
	if err := os.WriteFile(l.file("resolv.conf"), []byte("nameserver 127.0.0.1\n"), 0o600); err != nil {
		return fmt.Errorf("configure the cluster: %w", err)
	}
	return l.certificates()
}

func (n node) configure(source parts.Source) error {
	for _, s := range state {
		if err := os.MkdirAll(n.own(s.dir), 0o700); err != nil {
			return fmt.Errorf("make the cluster's directories: %w", err)
		}
	}
	v := values{node: n, CoreDNS: source.Image("coredns"), MetricsServer: source.Image("metrics-server")}
	for _, name := range []string{"containerd.toml", "cni.conflist", "kubelet.yaml", "kube-proxy.yaml", "coredns.yaml", "metrics-server.yaml"} {
		data, err := render(name, v)
		if err != nil {
			return err
		}
		if err := os.WriteFile(n.own(name), data, 0o600); err != nil {
			return fmt.Errorf("configure %s: %w", n.name(), err)
		}
	}
	return nil
}

func (l configuration) certificates() error {
	authority, err := pki.NewAuthority(l.pki(), "ca", "kubernetes-ca")
	if err != nil {
		return fmt.Errorf("make the cluster's certificates: %w", err)
	}
	front, err := pki.NewAuthority(l.pki(), "front-proxy-ca", "front-proxy-ca")
	if err != nil {
		return fmt.Errorf("make the cluster's certificates: %w", err)
	}
	if err := pki.KeyPair(l.pki(), "service-accounts"); err != nil {
		return fmt.Errorf("make the cluster's certificates: %w", err)
	}
	address, api := net.IP(l.Network.Node.AsSlice()), net.IP(l.Network.API.AsSlice())
	const masters = "system:masters"
	all := []certificate{
		{by: authority, Certificate: pki.Certificate{File: "apiserver", Name: "kube-apiserver", Addresses: []net.IP{address, api, net.IPv4(127, 0, 0, 1)},
			Hosts: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}}},
		{by: authority, Certificate: pki.Certificate{File: "apiserver-kubelet", Name: "apiserver-kubelet-client", Organization: masters}},
		{by: front, Certificate: pki.Certificate{File: "front-proxy", Name: "front-proxy-client"}},
		{by: authority, kubeconfig: l.Kubeconfig(), Certificate: pki.Certificate{File: "admin", Name: "admin", Organization: masters}},
		{by: authority, kubeconfig: l.kubeconfig("controllers"), Certificate: pki.Certificate{File: "controllers", Name: "system:kube-controller-manager"}},
		{by: authority, kubeconfig: l.kubeconfig("scheduler"), Certificate: pki.Certificate{File: "scheduler", Name: "system:kube-scheduler"}},
		{by: authority, kubeconfig: l.kubeconfig("kube-proxy"), Certificate: pki.Certificate{File: "kube-proxy", Name: "system:kube-proxy"}},
	}
	for _, n := range l.nodes() {
		all = append(all, n.certificates(authority)...)
	}
	for _, c := range all {
		cert, key, err := c.by.Issue(c.Certificate)
		if err != nil {
			return fmt.Errorf("make the cluster's certificates: %w", err)
		}
		if c.kubeconfig == "" {
			continue
		}
		encode := base64.StdEncoding.EncodeToString
		data, err := render("kubeconfig.yaml", map[string]string{"Cluster": "tare-" + l.Name, "User": c.File,
			"Server": l.Network.Server(), "CA": encode(authority.PEM()), "Cert": encode(cert), "Key": encode(key)})
		if err != nil {
			return err
		}
		if err := os.WriteFile(c.kubeconfig, data, 0o600); err != nil {
			return fmt.Errorf("write kubeconfig of %s: %w", c.File, err)
		}
	}
	return nil
}

// certificate is one of the cluster's, with the kubeconfig that uses it, if any.
type certificate struct {
	by         *pki.Authority
	kubeconfig string
	pki.Certificate
}

// certificates are the certificates of the node's kubelet, as a server and as a client.
func (n node) certificates(by *pki.Authority) []certificate {
	const nodes = "system:nodes"
	user, client := "system:node:"+n.name(), n.suffixed("kubelet")
	return []certificate{
		{by: by, Certificate: pki.Certificate{File: n.suffixed("kubelet-serving"), Name: user, Organization: nodes,
			Addresses: []net.IP{n.address().AsSlice()}, Hosts: []string{n.name()}}},
		{by: by, kubeconfig: n.kubeconfig(client), Certificate: pki.Certificate{File: client, Name: user, Organization: nodes}},
	}
}

func (l Layout) kubeconfig(user string) string { return filepath.Join(l.pki(), user+".kubeconfig") }
