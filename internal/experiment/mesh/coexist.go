package mesh

import (
	"fmt"
)

// Coexist returns nil if trials under all of these meshes can be deployed in one cluster at the same time, otherwise
// the reason. A mesh can always be beside itself.
func Coexist(all ...Definition) error {
	byName := map[string]Definition{}
	for _, d := range all {
		byName[d.Name] = d
	}
	if len(byName) < 2 {
		return nil
	}
	homes := map[string]string{} // meshes by namespace of their control planes
	for _, d := range all {
		if d.Kubernetes == nil {
			continue
		}
		if !d.Kubernetes.Coexists {
			return fmt.Errorf("mesh %s may act on the namespaces of others (its definition lacks kubernetes.coexists)", d.Name)
		}
		home := d.Kubernetes.Namespace
		if other, taken := homes[home]; taken && other != d.Name {
			return fmt.Errorf("meshes %s and %s have their control planes in the same namespace, %s", other, d.Name, home)
		}
		homes[home] = d.Name
	}
	return nil
}
