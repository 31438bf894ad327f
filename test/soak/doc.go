// Command soak runs short trials for hours under disturbances that a seed draws: tare, proxies,
// services and load are killed, disks fill, descriptors run out. After each disturbance it checks
// that nothing is left of the run and that every record verifies. `make soak` calls it.
//
// Each strand has network and mount namespaces of its own, so that every socket, address and
// nftables table in them is tare's.
package main
