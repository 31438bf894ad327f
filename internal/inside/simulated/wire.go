package simulated

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/tare-mesh/tare/internal/base/rpc"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// method is the method of all types of resources (envoy/service/discovery/v3/ads.proto).
const method = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"

// request is a DeltaDiscoveryRequest.
type request struct {
	node                   []byte
	kind                   string
	subscribe, unsubscribe []string
	nonce                  string
}

func (r request) encode() rpc.Message {
	var m []byte
	if r.node != nil {
		m = rpc.Append(m, 1, r.node)
	}
	m = rpc.Append(m, 2, []byte(r.kind))
	for _, name := range r.subscribe {
		m = rpc.Append(m, 3, []byte(name))
	}
	for _, name := range r.unsubscribe {
		m = rpc.Append(m, 4, []byte(name))
	}
	if r.nonce != "" {
		m = rpc.Append(m, 6, []byte(r.nonce))
	}
	return rpc.Message{m}
}

// response is a DeltaDiscoveryResponse.
type response struct {
	kind, nonce string
	resources   [][]byte // the messages in them
	removed     []string
}

func decode(m []byte) (r response, err error) {
	fields, err := rpc.Fields(m)
	for _, f := range fields {
		switch f.Number {
		case 2: // Resource.resource (2) is an Any with its value (2)
			r.resources = append(r.resources, at(f.Bytes, 2, 2)...)
		case 4:
			r.kind = string(f.Bytes)
		case 5:
			r.nonce = string(f.Bytes)
		case 6:
			r.removed = append(r.removed, string(f.Bytes))
		}
	}
	return r, err
}

// at returns the fields of a message at a path of field numbers. Malformed parts have none.
func at(m []byte, path ...int) (all [][]byte) {
	fields, err := rpc.Fields(m)
	if err != nil {
		return nil
	}
	for _, f := range fields {
		if f.Number != path[0] || f.Bytes == nil {
			continue
		}
		if len(path) == 1 {
			all = append(all, f.Bytes)
			continue
		}
		all = append(all, at(f.Bytes, path[1:]...)...)
	}
	return all
}

// first is the first of some fields as text, or "".
func first(fields [][]byte) string {
	if len(fields) == 0 {
		return ""
	}
	return string(fields[0])
}

// endpointsOf is the name of the endpoints of a cluster (Cluster.eds_cluster_config.service_name, or Cluster.name), or "" for a
// cluster with another discovery than EDS.
func endpointsOf(cluster []byte) string {
	config := at(cluster, 3)
	if len(config) == 0 {
		return ""
	}
	if name := first(at(config[0], 2)); name != "" {
		return name
	}
	return first(at(cluster, 1))
}

// routesOf are the names of the routes of a listener: HttpConnectionManager.rds.route_config_name in
// filter_chains.filters.typed_config, and in default_filter_chain.
func routesOf(listener []byte) (names []string) {
	for _, chains := range []int{3, 25} {
		for _, name := range at(listener, chains, 3, 4, 2, 3, 2) {
			names = append(names, string(name))
		}
	}
	return names
}

// changesOf are the numbers of the changes that endpoints are of, by their addresses (ClusterLoadAssignment.endpoints.lb_endpoints.
// endpoint.address.socket_address.address).
func changesOf(assignment []byte) (numbers []int) {
	for _, address := range at(assignment, 2, 2, 1, 1, 1, 2) {
		if n, ok := mesh.BackgroundChange(string(address)); ok {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// encodeNode returns a Node (envoy/config/core/v3/base.proto). metadata is a JSON object.
func encodeNode(id, cluster, metadata string) ([]byte, error) {
	m := rpc.Append(rpc.Append(nil, 1, []byte(id)), 2, []byte(cluster))
	if metadata != "" {
		var object map[string]any
		if err := json.Unmarshal([]byte(metadata), &object); err != nil {
			return nil, fmt.Errorf("metadata of the node: %w", err)
		}
		fields, err := encodeStruct(object)
		if err != nil {
			return nil, fmt.Errorf("metadata of the node: %w", err)
		}
		m = rpc.Append(m, 3, fields)
	}
	return rpc.Append(m, 6, []byte("tare")), nil // user_agent_name
}

// encodeStruct returns a google.protobuf.Struct.
func encodeStruct(object map[string]any) (m []byte, err error) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		value, err := encodeValue(object[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		m = rpc.Append(m, 1, rpc.Append(rpc.Append(nil, 1, []byte(name)), 2, value))
	}
	return m, nil
}

// encodeValue returns a google.protobuf.Value. Metadata of proxies has texts, booleans and objects.
func encodeValue(value any) ([]byte, error) {
	switch v := value.(type) {
	case string:
		return rpc.Append(nil, 3, []byte(v)), nil
	case bool:
		if !v {
			return []byte{4 << 3, 0}, nil
		}
		return rpc.AppendInt(nil, 4, 1), nil
	case map[string]any:
		fields, err := encodeStruct(v)
		return rpc.Append(nil, 5, fields), err
	}
	return nil, fmt.Errorf("found %v, expected a text, a boolean or an object", value)
}
