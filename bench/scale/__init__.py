"""What strict removal of finalizers costs: pods through kwok nodes, in both arms by turns."""
