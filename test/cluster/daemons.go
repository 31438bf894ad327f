package cluster

// daemon is one of the programs of the node or of the control plane.
type daemon struct {
	name      string
	installed bool                     // from the distribution, not from the cluster's parts
	after     func(l Layout) condition // nil: at once
	arguments func(n node) []string
	// everywhere: on each node, not only on the first.
	everywhere bool
}

// etcdClients is where etcd is served: to the node alone, by the loopback interface of its namespace.
const etcdClients, etcdPeers = "http://127.0.0.1:2379", "http://127.0.0.1:2380"

// daemons in the order they are started. Kubelet and kube-proxy wait for the API server because they would
// otherwise wait some seconds between two attempts to reach it. The controller manager exits when it has no
// permissions after 10 s, and on a busy machine the server takes longer to create its roles.
var daemons = []daemon{
	{name: "containerd", installed: true, everywhere: true, arguments: func(l node) []string {
		return []string{"--config", l.own("containerd.toml")}
	}},
	{name: "etcd", arguments: func(l node) []string {
		return []string{
			"--name", Node, "--data-dir", l.file("etcd"), "--log-level", "warn",
			"--listen-client-urls", etcdClients, "--advertise-client-urls", etcdClients,
			"--listen-peer-urls", etcdPeers, "--initial-advertise-peer-urls", etcdPeers, "--initial-cluster", Node + "=" + etcdPeers,
			// What a crash of the machine would lose is thrown away with the cluster anyway.
			"--unsafe-no-fsync",
		}
	}},
	{name: "kube-apiserver", arguments: func(l node) []string {
		return []string{
			"--etcd-servers", etcdClients, "--advertise-address", l.Network.Node.String(), "--bind-address", "0.0.0.0", "--secure-port", "6443",
			"--service-cluster-ip-range", l.Network.Services.String(),
			"--tls-cert-file", l.pki() + "/apiserver.crt", "--tls-private-key-file", l.pki() + "/apiserver.key", "--client-ca-file", l.pki() + "/ca.crt",
			"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction", "--allow-privileged=true",
			"--service-account-issuer", "https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file", l.pki() + "/service-accounts.pub", "--service-account-signing-key-file", l.pki() + "/service-accounts.key",
			"--kubelet-client-certificate", l.pki() + "/apiserver-kubelet.crt", "--kubelet-client-key", l.pki() + "/apiserver-kubelet.key",
			"--kubelet-certificate-authority", l.pki() + "/ca.crt", "--kubelet-preferred-address-types", "InternalIP",
			"--requestheader-client-ca-file", l.pki() + "/front-proxy-ca.crt", "--requestheader-allowed-names", "front-proxy-client",
			"--requestheader-username-headers", "X-Remote-User", "--requestheader-group-headers", "X-Remote-Group",
			"--requestheader-extra-headers-prefix", "X-Remote-Extra-",
			"--proxy-client-cert-file", l.pki() + "/front-proxy.crt", "--proxy-client-key-file", l.pki() + "/front-proxy.key",
			"--enable-aggregator-routing=true", "--profiling=false",
		}
	}},
	{name: "kube-controller-manager", after: afterAPI, arguments: func(l node) []string {
		arguments := []string{
			"--kubeconfig", l.kubeconfig("controllers"), "--leader-elect=false", "--use-service-account-credentials", "--bind-address", "127.0.0.1",
			"--service-account-private-key-file", l.pki() + "/service-accounts.key", "--root-ca-file", l.pki() + "/ca.crt",
			"--cluster-signing-cert-file", l.pki() + "/ca.crt", "--cluster-signing-key-file", l.pki() + "/ca.key",
		}
		if l.several() { // a test that loses a node waits for this; kubelets renew their Leases every 2 s
			arguments = append(arguments, "--node-monitor-grace-period", "20s")
		}
		return arguments
	}},
	{name: "kube-scheduler", arguments: func(l node) []string {
		return []string{"--kubeconfig", l.kubeconfig("scheduler"), "--leader-elect=false", "--bind-address", "127.0.0.1"}
	}},
	{name: "kubelet", everywhere: true, after: afterAPI, arguments: func(l node) []string {
		arguments := []string{"--config", l.own("kubelet.yaml"), "--kubeconfig", l.kubeconfig(l.suffixed("kubelet")),
			"--hostname-override", l.name(), "--node-ip", l.address().String(), "--v=2"}
		if l.CAdvisor {
			arguments = append(arguments, "--containerd", l.Containerd())
		}
		return arguments
	}},
	{name: "kube-proxy", everywhere: true, after: afterAPI, arguments: func(l node) []string {
		return []string{"--config", l.own("kube-proxy.yaml")}
	}},
}

// Daemons are the names of the cluster's programs.
func Daemons() []string {
	names := make([]string, 0, len(daemons))
	for _, d := range daemons {
		names = append(names, d.name)
	}
	return names
}

func (d daemon) path(l Layout) string {
	if d.installed {
		return d.name
	}
	return l.program(d.name)
}

// afterAPI holds once the API server is ready.
func afterAPI(l Layout) condition { return api{l}.apiReady() }
