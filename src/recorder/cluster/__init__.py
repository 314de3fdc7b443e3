"""Worlds run by a server and workers, in processes that may die: the same states as in one process, and checkpoints of the whole."""

from recorder.cluster.checkpoint_folder import WholeDiscovery, discover_whole_checkpoints
from recorder.cluster.organism_cluster import ClusterError, OrganismCluster
from recorder.cluster.whole_checkpoint import WholeCheckpoint, WholeCheckpointError

__all__ = [
    "ClusterError",
    "OrganismCluster",
    "WholeCheckpoint",
    "WholeCheckpointError",
    "WholeDiscovery",
    "discover_whole_checkpoints",
]
