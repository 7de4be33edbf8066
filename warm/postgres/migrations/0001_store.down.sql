DROP TABLE erasure_key, erasure_segment, erasure, location, segment, lease, position, request, sequencer, feed, outbox, batch,
  tombstone, projection, version, head, namespace, meta;
